"""A sweep's space is known from the ledger alone, wherever the shell stands and its file is by now."""

import shutil
from pathlib import Path

import pytest

from analysis.answers.baselines import read_stored
from analysis.answers.lookup import select, space_of_sweep
from analysis.ledger import Baselines, Ledger
from analysis.matching import match
from analysis.sweep_spec import SweepSpec
from analysis.tables.aggregate import Baseline
from cluster.runtime.options import SweepOptions
from cse.cli.options import data_paths
from cse.experiments import request as sweeping
from cse.experiments.request import record
from cse_train.encoder.folders import find_weights
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import encoder_hash, identity, signature
from tests.run_values import book_run

TEXT = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: enc, train.corpus: generated, train.dev: "generated_dev:20"}
space: {train.learning_rate: {grid: [1e-4, 2e-4]}}
"""


def recorded(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str = "space.yaml",
    profile: str | None = None,
    encoder: str = "",
):
    """A ledger with the sweep of a relative file, recorded from another folder, as a search does."""
    (folder / "enc").mkdir(parents=True, exist_ok=True)
    if encoder:
        shutil.copytree(find_weights() / encoder, folder / "enc", dirs_exist_ok=True)
    (folder / "space.yaml").write_text(TEXT)
    (folder / "scale.yaml").write_text("version: 1\ntrain: {examples: 64}\n")
    monkeypatch.chdir(folder)
    request = sweeping.Request(
        resolved=resolve(load_space(name), profile, {"train.batch_size": 16}),
        seeds=(0,),
        paths=data_paths(None, None, None),
        ledger=str(folder / "ledger.db"),
        options=SweepOptions(storage=folder),
    )
    monkeypatch.chdir("/")
    ledger = Ledger.open(request.ledger, create=True)
    record(request, ledger, [])
    return ledger


def test_a_sweep_of_a_relative_file_knows_its_space_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = recorded(tmp_path / "project", monkeypatch)
    (sweep,) = ledger.sweeps()
    assert sweep.spec.file == str(tmp_path / "project" / "space.yaml")
    made = select(sweep.id, ledger, None, {})
    assert [cell.settings["train.encoder"] for cell in made.cells()] == [str(tmp_path / "project" / "enc")] * 2


def test_of_a_sweep_and_a_space_with_one_name_either_counts(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", create=True)
    spec = {"title": "t", "file": str(load_space("E7").file), "profile": "small", "set": {"train.examples": 640}}
    for name in ("E7", "E7 train.examples=640"):
        ledger.record_sweep(name, SweepSpec(spec))
    counted = {
        (name, as_run): select(name, ledger, None, {}, as_run=as_run).overrides.get("train.examples")
        for name in ("E7", "E7 train.examples=640")
        for as_run in (True, False)
    }
    assert list(counted.values()) == [640, None, 640, 640]


def test_a_sweep_knows_its_space_and_profile_when_their_files_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    ledger = recorded(folder, monkeypatch, profile="scale.yaml")
    (sweep,) = ledger.sweeps()
    before = space_of_sweep(sweep)
    for file in ("space.yaml", "scale.yaml"):
        (folder / file).unlink()
    folder.rename(tmp_path / "moved")
    after = space_of_sweep(sweep)
    assert before is not None and after is not None
    assert [cell.flat for cell in after.cells()] == [cell.flat for cell in before.cells()]
    assert after.cells()[0].flat["train.examples"] == 64
    assert after.cells()[0].flat["train.encoder"] == str(folder / "enc")  # as it was run, though nothing is there now


def test_a_sweep_of_a_ledger_without_copies_names_the_file_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = recorded(tmp_path / "project", monkeypatch)
    (sweep,) = ledger.sweeps()
    ledger.record_sweep(
        sweep.id, SweepSpec({name: value for name, value in sweep.spec.stored.items() if name != "yaml"})
    )
    (tmp_path / "project" / "space.yaml").unlink()
    with pytest.raises(ConfigError, match="no such file: sweep=.* ran .*space.yaml, which is gone; give the space's"):
        select(sweep.id, ledger, None, {})


def test_a_shipped_space_needs_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = recorded(tmp_path / "project", monkeypatch, "E7")
    (sweep,) = ledger.sweeps()
    assert sweep.spec.yaml is None and space_of_sweep(sweep) is not None


def test_a_sweep_has_each_run_once_after_its_encoder_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else best and report would list it under both paths; another cell that the run answers too stays."""
    ledger = recorded(tmp_path / "project", monkeypatch)
    (sweep,) = ledger.sweeps()
    rates = {"train.learning_rate": 1e-4}
    ledger.link(sweep.id, [("a" * 24, {"train.encoder": "/old/enc", **rates}, 0)])
    ledger.link(sweep.id, [("a" * 24, {"train.encoder": "/old/enc", "train.learning_rate": 2e-4}, 0)])
    ledger.link(sweep.id, [("a" * 24, {"train.encoder": "/new/enc", **rates}, 0)])
    cells = [link.cell for link in ledger.cells(sweep.id)]
    assert sorted((cell["train.encoder"], cell["train.learning_rate"]) for cell in cells) == [
        ("/new/enc", 1e-4),
        ("/old/enc", 2e-4),
    ]


def test_a_sweep_knows_what_its_paths_held_when_they_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs began under another path, which is gone too; recorded again without the folder, it still knows."""
    ledger = recorded(tmp_path / "project", monkeypatch, encoder="words-l1-h64")
    place = tmp_path / "project" / "enc"
    run = resolve(load_space(tmp_path / "project" / "space.yaml"), None, {"train.batch_size": 16}).cells()[0].run(0)
    hashes = identity(run, data_paths(None, None, None))
    config = {**run.flat(), "train.encoder": "/first/enc"}
    name = signature(run, hashes)
    book_run(ledger, name, config, identity=hashes, examples=64, best=50.0)
    shutil.rmtree(place)
    for _ in range(2):
        (sweep,) = ledger.sweeps()
        space = space_of_sweep(sweep)
        assert space is not None and [m.run.signature for m in match(space, ledger.runs())] == [name]
        recorded(tmp_path / "project", monkeypatch)


def test_rows_without_training_are_those_of_what_the_encoders_path_holds(tmp_path: Path) -> None:
    def folder(name: str, content: str) -> str:
        shutil.copytree(find_weights() / content, tmp_path / name)
        return str(tmp_path / name)

    ledger, old = Ledger.open(tmp_path / "ledger.db", create=True), folder("old", "words-l1-h64")
    setup = {"train.encoder": old, "train.corpus": "generated", "train.dev_max_length": 512}
    inputs = {"encoder": encoder_hash(old) or "", "corpus": "c", "suite": "s"}
    ledger.store_baselines([Baselines("generated_dev:20", old, "generated", 512, inputs, {"untrained mean": 1.5})])
    new = setup | {"train.encoder": folder("new", "words-l1-h64")}
    other = setup | {"train.encoder": folder("other", "words-l2-h128")}
    rows = [read_stored([each], ["generated_dev:20"], ledger) for each in (setup, new, other)]
    assert rows == [[Baseline("untrained mean", {"generated_dev:20": 1.5})]] * 2 + [[]]
    shutil.copy(find_weights() / "words-l2-h128" / "model.safetensors", old)
    assert read_stored([setup], ["generated_dev:20"], ledger) == []
    shutil.rmtree(old)
    assert len(read_stored([setup], ["generated_dev:20"], ledger)) == 1  # not here: by its name
