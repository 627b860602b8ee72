"""Encoders, generators, synonyms and word vectors at another path: what they hold decides which runs are a space's."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from analysis.ledger import Ledger
from analysis.matching import RunMatcher, match, match_on
from cluster.plan.planner import plan
from cse_train import methods
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.text.synonyms import FILES
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve
from search_spaces.identity import signature as signatures
from search_spaces.identity.signature import identity, signature
from tests.run_values import book_run

COMMON = {"train.corpus": "generated", "train.dev": "generated_dev:20", "train.examples": 64, "train.evaluations": 1}
RATES = {"train.learning_rate": {"grid": [1e-4, 2e-4]}}
SEARCH = {"train.learning_rate": {"loguniform": [1e-5, 1e-2]}}
PATHS = DataPaths()
VECTORS = Path(__file__).parents[2] / "cse_train" / "programs" / "word_vectors.txt"


def encoder(folder: Path, content: str = "words-l1-h64") -> Path:
    """A folder with a shipped encoder's files and a tokenizer of its own."""
    shutil.copytree(find_weights() / content, folder)
    return folder


def words(folder: Path, text: str = "one") -> Path:
    """A folder with files called as WordNet's."""
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"{text} {name}")
    return folder


def vectors(file: Path) -> Path:
    shutil.copy(VECTORS, file)
    return file


def space(folder: Path, method: str, settings: dict, axes: dict = RATES, **more: object) -> ResolvedSpace:
    raw = {"version": 1, "id": "mine", "seeds": 1, "method": method, "set": {**COMMON, **settings}, "space": axes}
    (folder / "space.yaml").write_text(yaml.safe_dump(raw | more))
    return resolve(load_space(folder / "space.yaml"))


def trained(resolved: ResolvedSpace, ledger: Ledger, paths: DataPaths = PATHS, key: dict | None = None) -> None:
    """Note a finished run for each cell, or for the one with this key."""
    for cell in resolved.cells() if key is None else [resolved.cell(key)]:
        run = cell.run(0)
        hashes = identity(run, paths)
        book_run(ledger, signature(run, hashes), run.flat(), identity=hashes, examples=64, best=50.0)


def counts(resolved: ResolvedSpace, ledger: Ledger) -> tuple[int, int]:
    """Runs that the plan has as done, and runs that a table has."""
    planned = plan([resolved.space], None, None, ledger, PATHS).counts()
    return planned["done"], len(match_on(resolved, ledger.runs())[0])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db", create=True)


WIKI = {"train.encoder": "words-l1-h64"}
"""Its vocabulary is that of the generators."""
PLACES: list[tuple[str, str, Callable[..., Path], dict]] = [
    ("simcse", "train.encoder", encoder, {}),
    ("simcse", "method.generator", encoder, {"method.augmentation": "mlm", **WIKI}),
    ("simcse", "method.synonyms", words, {"method.augmentation": "synonym"}),
    ("esimcse", "method.generator", encoder, {"method.extension": "masked_prediction", **WIKI}),
    ("diffcse", "method.generator", encoder, WIKI),
    ("d2cse", "method.generator", encoder, WIKI),
    ("infersent", "train.encoder", vectors, {"train.corpus": "nli"}),
]


@pytest.mark.parametrize("how", ["copied", "linked", "moved"])
@pytest.mark.parametrize(("method", "key", "make", "settings"), PLACES)
def test_the_same_content_at_another_path_is_the_same_run(
    method: str, key: str, make: Callable, settings: dict, how: str, tmp_path: Path, ledger: Ledger
) -> None:
    a, b = (tmp_path / f"{name}{VECTORS.suffix if make is vectors else ''}" for name in "ab")
    make(a)
    nli = tmp_path / "nli.csv"
    nli.write_text("sent0,sent1,label\n" + "a river,a bridge,neutral\n" * 9)
    paths = DataPaths(nli=nli)
    first = space(tmp_path, method, {**settings, key: str(a)})
    trained(first, ledger, paths)
    if how == "copied":
        shutil.copytree(a, b) if a.is_dir() else shutil.copy(a, b)
    else:
        b.symlink_to(a) if how == "linked" else a.rename(b)
    other = space(tmp_path, method, {**settings, key: b.name})  # a relative path, at that
    assert plan([other.space], None, None, ledger, paths, need_inputs=True).counts()["done"] == 2
    matches, notes = match_on(other, ledger.runs())
    assert (len(matches), notes) == (2, [])
    assert len(match(other, ledger.runs())) == 2


@pytest.mark.parametrize("axis", [True, False])
def test_a_search_knows_runs_whose_encoder_moved(axis: bool, tmp_path: Path, ledger: Ledger) -> None:
    def search(name: str) -> ResolvedSpace:
        axes = {"train.encoder": {"choice": ["words-l2-h128", name]}} if axis else {}
        more = {"search": {"sampler": "random", "num_samples": 3}}
        return space(tmp_path, "simcse", {} if axis else {"train.encoder": name}, {**axes, **SEARCH}, **more)

    a = encoder(tmp_path / "a")
    trained(search("a"), ledger, key={"train.learning_rate": 1e-3} | ({"train.encoder": str(a)} if axis else {}))
    a.rename(tmp_path / "b")
    other = search("b")
    assert counts(other, ledger) == (1, 1)
    matcher = RunMatcher(other, lambda run: signature(run, identity(run, PATHS)))
    ((cell,),) = [matcher.cells(row) for row in ledger.runs()]
    assert cell.flat["train.encoder"] == str(tmp_path / "b")


def test_two_encoders_that_change_places_keep_their_runs_by_content(tmp_path: Path, ledger: Ledger) -> None:
    a, b = encoder(tmp_path / "a"), encoder(tmp_path / "b", "words-l2-h128")
    both = space(tmp_path, "simcse", {}, {"train.encoder": {"grid": [str(a), str(b)]}})
    trained(both, ledger)
    before = {m.cell.key["train.encoder"]: m.run.identity["encoder"] for m in match(both, ledger.runs())}
    a.rename(tmp_path / "c")
    b.rename(a)
    (tmp_path / "c").rename(b)
    after = {m.cell.key["train.encoder"]: m.run.identity["encoder"] for m in match(both, ledger.runs())}
    assert after == {str(a): before[str(b)], str(b): before[str(a)]}
    assert counts(both, ledger) == (2, 2)


@pytest.mark.parametrize("how", ["replaced", "link"])
def test_other_content_at_the_same_path_is_another_run_and_the_old_ones_stand_aside(
    how: str, tmp_path: Path, ledger: Ledger
) -> None:
    """Also where size and time of change are those of before, as files out of an archive have them."""
    place = tmp_path / "enc"
    one, two = encoder(tmp_path / "one"), encoder(tmp_path / "two")
    content = bytearray((two / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (two / "model.safetensors").write_bytes(content)
    for folder in (one, two):
        os.utime(folder / "model.safetensors", (1, 1))
    place.symlink_to(one) if how == "link" else one.rename(place)
    resolved = space(tmp_path, "simcse", {"train.encoder": "enc"})
    trained(resolved, ledger)
    assert counts(resolved, ledger) == (2, 2)
    place.unlink() if how == "link" else shutil.rmtree(place)
    place.symlink_to(two) if how == "link" else two.rename(place)
    assert counts(resolved, ledger) == (0, 0)
    old = ledger.runs()[0].identity["encoder"]
    _, (note,) = match_on(resolved, ledger.runs())
    assert note.startswith("2 runs on other inputs or by other code: not shown (")
    assert f"encoder {old[:8]}" in note and f"--data-hash {old[:8]} shows them" in note
    assert len(match_on(resolved, ledger.runs(), data_hash=old[:8])[0]) == 2


def test_a_path_that_is_not_here_is_known_by_its_name(tmp_path: Path, ledger: Ledger) -> None:
    """The space of a ledger that came from another machine still has its table."""
    a = encoder(tmp_path / "a")
    resolved = space(tmp_path, "simcse", {"train.encoder": str(a)})
    trained(resolved, ledger)
    shutil.rmtree(a)
    assert len(match(resolved, ledger.runs())) == 2


def test_a_corpus_under_another_name_is_the_same_run(tmp_path: Path, ledger: Ledger) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("a river\nby a bridge\n" * 20)
    first = space(tmp_path, "simcse", {"train.encoder": "words-l1-h64", "train.corpus": "one.txt"})
    trained(first, ledger, DataPaths(files=first.files))
    other = space(tmp_path, "simcse", {"train.encoder": "words-l1-h64", "train.corpus": "two.txt"})
    assert counts(other, ledger) == (2, 2)


def test_the_plan_names_the_options_that_came_after_a_run_and_stand_elsewhere_by_default(
    tmp_path: Path, ledger: Ledger
) -> None:
    """A ledger of before does not name them: the run's signature is that of what was done then."""
    before = {"method.guide_dropout": False, "method.opt2_negatives": "all"}
    run = space(tmp_path, "sgopt", {"train.encoder": "words-l1-h64", **before}).cells()[0].run(0)
    hashes, flat = identity(run, PATHS), {key: value for key, value in run.flat().items() if key not in before}
    book_run(ledger, signature(run, hashes), flat, method="sgopt", identity=hashes, examples=64, best=50.0)
    resolved = space(tmp_path, "sgopt", {"train.encoder": "words-l1-h64"})
    assert plan([resolved.space], None, None, ledger, PATHS).stale() == [
        "not reused: 1 finished run of sgopt is trained again, the old stay in the ledger: method.guide_dropout was "
        "False, is True; method.opt2_negatives was all, is all_but_first"
    ]


def test_the_plan_says_which_finished_runs_are_not_reused_and_why(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By method and reason, also of a search; nothing where all are reused, or were never of these settings."""
    a = encoder(tmp_path / "a")
    resolved = space(tmp_path, "esimcse", {"train.encoder": "a"})
    searched = space(
        tmp_path, "esimcse", {"train.encoder": "a"}, SEARCH, search={"sampler": "random", "num_samples": 3}
    )
    trained(resolved, ledger)
    trained(searched, ledger, key={"train.learning_rate": 1e-3})

    def stale(resolved: ResolvedSpace) -> list[str]:
        return plan([resolved.space], None, None, ledger, PATHS).stale()

    assert stale(resolved) == stale(searched) == []
    options = methods.config_class("esimcse")
    before = options.VERSION
    monkeypatch.setattr(options, "VERSION", before + 1)
    said = "trained again, the old stay in the ledger: the method computes otherwise now"
    versions = f"(VERSION {before} -> {before + 1})"
    assert stale(resolved) == [f"not reused: 2 finished runs of esimcse are {said} {versions}"]
    assert stale(searched) == [f"not reused: 3 finished runs of esimcse are {said} {versions}"]  # the grid's rates too
    trained(resolved, ledger)
    assert stale(resolved) == []
    old = ledger.runs()[0].identity["encoder"][:8]
    shutil.copy(find_weights() / "words-l2-h128" / "model.safetensors", a)
    (line,) = stale(resolved)
    new = identity(resolved.cells()[0].run(0), PATHS)["encoder"][:8]
    assert line.endswith(f"ledger: train.encoder={a} was other content (encoder {old} -> {new})")
    monkeypatch.setitem(signatures.SIGNED_RULES, "training", 99)
    shutil.rmtree(a)
    encoder(a)
    assert stale(resolved)[0].endswith("the rules of training or evaluation are others now")
