"""`cse explain`: cells, runs and an exact command; runs of a user's own program in lists and lines."""

import contextlib
import errno
import functools
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.answers.explain import command
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.monitor.metrics import Tally
from cluster.sweep.events import SweepEvent
from cse.cli.app import main
from cse.cli.options import settings
from cse_train import files
from cse_train.export import export
from cse_train.fields import ConfigError
from cse_train.files import write_digests
from cse_train.plugins import registry
from search_spaces.catalog import catalog, load_space
from search_spaces.cell_names import cell_argument, choose
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.signature import signature
from search_spaces.parse import parse_file
from tests import site_ledger
from tests.commands import printed, refused
from tests.run_values import book_run, score_of

pytestmark = pytest.mark.usefixtures("somewhere")

INPUTS = {"encoder": "e" * 64, "tokenizer": "t", "corpus": "c", "dev": "d"}
HERE = {"commit": "a" * 40, "host": "one", "versions": {"torch": "2.0"}}


@pytest.fixture
def ledger(somewhere: Path) -> Ledger:
    return Ledger.open(somewhere / "results" / "ledger.db")


def book(ledger: Ledger, sweep: str, cell: Cell, seed: int, value: float | None, **details: object) -> str:
    """One run of a cell, done with `value` or failed, at `HERE` but for `details`."""
    run = cell.run(seed)
    name = signature(run, INPUTS)
    (Path("results/runs") / name / "best").mkdir(parents=True, exist_ok=True)
    end = {"examples": 25600, "best": value, "best_examples": 1280, "seconds": 7.5, "folder": f"runs/{name}"}
    end |= {"state": "failed" if value is None else "done", "reason": None if value else "loss is nan"}
    book_run(ledger, name, run.flat(), seed=seed, identity=INPUTS, provenance={**HERE, **details}, **end)
    ledger.link(sweep, [(name, cell.key, seed)])
    return name


@pytest.fixture
def e7(ledger: Ledger) -> ResolvedSpace:
    """The cell 0.32 of E7: seed 1 elsewhere and at the second attempt, seed 2 failed; another cell beside it."""
    resolved = resolve(load_space("E7"))
    ledger.record_sweep(
        "E7",
        SweepSpec(
            {"title": "t", "file": str(resolved.space.file), "profile": "small", "encoder": "words-l4-h128", "set": {}}
        ),
    )
    cell, other = resolved.cells()[6], resolved.cells()[0]
    book(ledger, "E7", cell, 0, 60.0)
    book(ledger, "E7", cell, 1, None, commit="b" * 40)
    book(ledger, "E7", cell, 1, 62.0, commit="b" * 40)
    book(ledger, "E7", cell, 2, None)
    book(ledger, "E7", other, 0, 10.0)
    return resolved


def test_everything_behind_a_cell(capsys: pytest.CaptureFixture[str], e7: ResolvedSpace, ledger: Ledger) -> None:
    signatures = [signature(e7.cells()[6].run(seed), INPUTS) for seed in range(3)]
    ledger.add_score(signatures[0], score_of("sts_dev", 59.5, {"pooler": "cls"}))
    argv = ("explain", "E7", "--cell", "dup_rate=0.32", "--seeds", "4", "--format", "json")
    found = json.loads(printed(capsys, *argv))
    assert found["cell"] == {"method.dup_rate": 0.32}
    assert [run["signature"] for run in found["runs"]] == signatures
    assert [run["values"]["sts_dev"] for run in found["runs"]] == [59.5, None, None]
    assert found["columns"]["sts_dev"] == {"n": 1, "mean": 59.5, "sd": None, "published": 84.85}
    assert found["paper"]["table"] == "Table 9" and found["paper"]["cells"] == {"sts_dev": 84.85}
    assert [[a["state"] for a in run["attempts"]] for run in found["runs"]] == [
        ["done"],
        ["failed", "done"],
        ["failed"],
    ]
    assert found["runs"][0]["checkpoint"] == str(Path("results/runs", signatures[0], "best").resolve())
    assert found["differing"] == {"commit": {f'"{"a" * 40}"': [0, 2], f'"{"b" * 40}"': [1]}}
    assert found["shared"]["host"] == "one" and found["shared"]["versions.torch"] == "2.0"
    assert found["shared"]["input.corpus"] == "c"
    assert found["protocols"] == {"sts_dev": [{"pooler": "cls"}]}
    assert found["cost"] == {"runs": 3, "attempts": 4, "examples": 4 * 25600, "seconds": 30.0}
    assert found["missing_seeds"] == [3]


def test_the_same_for_people(capsys: pytest.CaptureFixture[str], e7: ResolvedSpace) -> None:
    text = printed(capsys, "explain", "E7", "--cell", "method.dup_rate=0.32", "--seeds", "4")
    assert "DIFFERS between seeds: commit: aaaaaaaaaaaa (seed 0, 2), bbbbbbbbbbbb (seed 1)" in text
    assert "seed 1, attempt 1 ended failed: loss is nan" in text
    assert "no run: seed 3" in text
    assert "61.00" in text and "84.85" in text and "Table 9" in text
    assert "cse run E7 --set method.dup_rate=0.32 --seeds 3" in text


def test_a_cell_without_runs_and_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "explain", "D3", "--cell", "DiffCSE")
    assert "no run: seed 0, 1, 2" in text and "84.56" in text


def test_the_sweep_says_under_which_settings_it_ran(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    resolved = resolve(load_space("E7"), None, {"train.examples": 640})
    spec = {
        "title": "t",
        "file": str(resolved.space.file),
        "profile": "small",
        "encoder": "words-l4-h128",
        "set": {"train.examples": 640},
    }
    ledger.record_sweep("E7 train.examples=640", SweepSpec(spec))
    name = book(ledger, "E7 train.examples=640", resolved.cells()[6], 0, 55.0)
    argv = ("explain", "E7 train.examples=640", "--cell", "dup_rate=0.32", "--format", "json")
    found = json.loads(printed(capsys, *argv))
    assert [run["signature"] for run in found["runs"]] == [name]
    assert found["command"] == "cse run E7 --set train.examples=640 --set method.dup_rate=0.32 --seeds 1"


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["small", "paper"])
def test_the_command_of_every_shipped_cell_runs_that_cell_alone(profile: str) -> None:
    """What the words resolve to has every setting of the cell, and so its signature; all shipped tables."""
    checked = 0
    for name in catalog():
        resolved = resolve(load_space(name), profile)
        if resolved.size() is None or resolved.space.sampled:
            continue
        for cell in {json.dumps(c.run(0).flat(), sort_keys=True): c for c in resolved.cells()}.values():
            assert alone(command(resolved, cell, (0, 1))).flat() == cell.run(1).flat(), (name, cell_argument(cell))
            checked += 1
    assert checked > 80


def alone(words: str):  # type: ignore[no-untyped-def]
    """Seed 1 of the only cell that a `cse run` line asks for."""
    line = shlex.split(words)
    assert line[:2] == ["cse", "run"]
    options = dict(zip(line[3::2], line[4::2], strict=True))
    given = settings([value for flag, value in zip(line[3::2], line[4::2], strict=True) if flag == "--set"])
    cells = resolve(load_space(line[2]), options.get("--profile"), given).cells()
    assert len({json.dumps(cell.run(0).flat(), sort_keys=True) for cell in cells}) == 1
    assert options["--seeds"] == "2"
    return cells[0].run(1)


def test_a_searched_cell_is_found_among_those_that_ran(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    resolved = resolve(load_space("esimcse"))
    key = {
        "train.learning_rate": 3e-5,
        "method.dup_rate": 0.25,
        "method.dup_rule": "paper",
        "method.queue_multiple": 0.0,
    }
    ledger.record_sweep("esimcse", SweepSpec({"title": "t"}))
    name = book(ledger, "esimcse", resolved.cell(key), 0, 50.0)
    found = json.loads(printed(capsys, "explain", "esimcse", "--cell", "dup_rate=0.25", "--format", "json"))
    assert [run["signature"] for run in found["runs"]] == [name]
    assert alone_settings(found["command"]) == {**key}
    assert resolve(resolved.space, None, key).cells()[0].run(0) == resolved.cell(key).run(0)


def alone_settings(words: str) -> dict[str, object]:
    line = shlex.split(words)
    return settings([value for flag, value in zip(line[3::2], line[4::2], strict=True) if flag == "--set"])


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("E7",), "which cell: cell=none of 8 of E7; give --cell method.dup_rate=0.08 or --cell "),
        (("E7", "--cell", "dup_rat=0.32"), "unknown axis: cell=dup_rat; did you mean method.dup_rate?"),
        (("E7", "--cell", "dup_rate=0.3"), "no such cell: cell=dup_rate=0.3; method.dup_rate is one of 0.08, 0.12"),
        (("E7", "--cell", "0.32"), "no such cell: cell=0.32; give axis=value"),
        (("D3", "--cell", "DiffCSe"), "no such cell: cell=DiffCSe; did you mean DiffCSE?"),
        (("E3", "--cell", "dup_rate=0"), "ambiguous cell: cell=dup_rate=0 is 2 cells; add method.queue_multiple"),
        (("E3", "--cell", "dup_rate=0,queue_multiple=1"), "no such cell: cell=dup_rate=0,queue_multiple=1; give one"),
        (
            ("S3", "--cell", "dropout=0.1"),
            "ambiguous cell: cell=dropout=0.1 is 2 cells; add method.fixed_dropout, "
            "as in --cell 0.1 or --cell 'Fixed 0.1'",
        ),
        (("E77", "--cell", "x"), "unknown space: space=E77; did you mean E7?"),
    ],
)
def test_mistakes_are_one_line(argv: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "explain", *argv).startswith(f"cse: {told}")


def test_pairs_in_one_word_or_several_and_ambiguous_ends(tmp_path: Path) -> None:
    resolved = resolve(load_space("E3"))
    cells = resolved.cells()
    one = choose(resolved, ["dup_rate=0.32,queue_multiple=2.5"], cells)
    assert one == choose(resolved, ["method.dup_rate=0.32", "queue_multiple=2.5"], cells) == cells[3]
    text = "version: 1\nid: T\nmethod: simcse\nspace:\n  train.temperature: {grid: [1]}\n"
    Path("t.yaml").write_text(text.replace("train.temperature", "method.temperature"), encoding="utf8")
    with pytest.raises(ConfigError, match="unknown axis: cell=rate"):
        choose(
            resolve(load_space("t.yaml")),
            ["rate=1"],
            [],
        )


SPACE = """
version: 1
id: mine
trainer:
  script: train.py
  score: {name: dev_loss, direction: min}
seeds: 2
space:
  lr: {grid: [1, 2]}
"""
LOSSES = {1: 0.25, 2: 0.5}


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A finished sweep of losses; the folder of its first run, which saved no model."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("", encoding="utf8")
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Path("results").mkdir()
    with contextlib.closing(Ledger.open(Path("results/ledger.db"))) as ledger:
        resolved = resolve(parse_file(Path("mine.yaml")))
        site_ledger.train(ledger, resolved, 2, lambda run: -LOSSES[int(run.cell["lr"])] - 0.01 * run.seed)
    registry.forget()
    (tmp_path / "run" / "last").mkdir(parents=True)
    (tmp_path / "run" / "last" / "points.jsonl").write_text("", encoding="utf8")
    yield tmp_path / "run"
    registry.forget()


def test_trials_tell_the_loss_and_the_share_that_is_done(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["trials", "mine"], ["trials"]):
        out = printed(capsys, *words)
        assert all(f" {loss}00 " in out for loss in ("0.25", "0.26", "0.50", "0.51")) and "-0." not in out
        assert out.count("100%") == 4 and "1000" not in out and "1,000" not in out
    assert main(["trials", "mine", "--format", "json"]) == 0
    assert sorted(row["best"] for row in json.loads(capsys.readouterr().out)["rows"]) == [-0.51, -0.5, -0.26, -0.25]


def test_status_tells_the_least_loss_as_the_best(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "  best run 0.2500  lr=1 seed 0" in printed(capsys, "status", "mine")


def test_best_tells_the_least_loss_as_it_is(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(printed(capsys, "best", "mine").split())
    assert out.startswith("the lower dev_loss is the better one cell n mean sd best")
    assert "lr=1 2 0.2550 0.0071 0.2500" in out and "lr=2 2 0.5050 0.0071 0.5000" in out
    assert "pick: lr=1 (lowest mean dev score over seeds of 2 cells, 0.2550); run" in out
    assert "expected best of random cells: 0.3800 of 1, 0.2550 of 2" in out
    assert "optimism of its best run: 0.2500 against 0.2600 of its other seeds" in out


def test_the_line_of_progress_tells_the_least_loss() -> None:
    tally = Tally(2)
    for name, best in (("a", -0.5), ("b", -0.25), ("c", -0.75)):
        tally.add(SweepEvent(kind="done", signature=name, best=best, is_turned=True), 0.0)
    assert "best run 0.25" in tally.summary(0.0) and tally.best == -0.25


@pytest.mark.parametrize("words", [["export", "run", "--to", "out"], ["eval", "run", "--suite", "sts_dev"]])
def test_a_run_that_saved_no_model_is_told_in_one_line(
    sweep: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main([str(sweep) if word == "run" else word for word in words]) == 2
    told = capsys.readouterr().err
    assert "no model: run=" in told and "its program saved none" in told and "safetensors" not in told
    assert not Path("out").exists()


def test_a_model_that_was_deleted_is_told_apart_from_one_that_was_never_saved(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweep / "best").mkdir()
    (sweep / "best" / "model.pt").write_text("weights", encoding="utf8")
    write_digests(sweep)
    shutil.rmtree(sweep / "best")
    assert main(["export", str(sweep), "--to", "out"]) == 2
    told = capsys.readouterr().err
    assert "its program's model was deleted; cse doctor --repair has it trained again" in told
    assert "saved none" not in told


def test_export_to_a_full_disk_names_the_disk_and_the_file(
    sweep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (sweep / "best").mkdir()
    (sweep / "best" / "cse_run.json").write_text("{}", encoding="utf8")

    def is_full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(export, "copy_tree", functools.partial(files.copy_tree, copy=is_full))
    assert main(["export", str(sweep), "--to", "out"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("cse: disk full: file=") and "/cse_run.json; free some space" in told
    assert not Path("out").exists()


def test_train_of_a_space_names_the_command_that_trains_it(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "mine.yaml"]) == 2
    assert "no method: method=mine.yaml is a space" in (told := capsys.readouterr().err)
    assert "cse run mine.yaml" in told and "unknown method" not in told
