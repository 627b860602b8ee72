"""Stored edits: those of live editing where nothing is drawn, shared by runs that agree, complete or absent."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import edits
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.edits import StoreWithEdits, fill
from cse_train.fields import ConfigError
from cse_train.methods import diffcse
from cse_train.methods.options.diffcse import Config
from cse_train.random_streams import Place
from cse_train.training.batches import Batches
from cse_train.training.loop import Outcome, train

Settings = Callable[..., dict]


@pytest.fixture
def paths(text_file: Path, tmp_path: Path) -> DataPaths:
    return DataPaths(train_file=text_file, cache=tmp_path / "cache")


@pytest.fixture
def run_of(tiny_settings: Settings, paths: DataPaths, tmp_path: Path):
    """(changed settings) -> the outcome of a run of seven steps, over the end of an epoch of the 40 lines."""

    def run(**changes: object) -> Outcome:
        given = tiny_settings("diffcse", train_examples=56, train_evaluations=7, **changes)
        return train(parse_run(given), paths, tmp_path / f"run{len(list(tmp_path.iterdir()))}", lambda _: False)

    return run


@pytest.fixture
def no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, nobody may open a generator for the store."""

    def refuse(*_: object) -> None:
        raise RuntimeError("a generator is opened")

    monkeypatch.setattr(edits, "Generator", refuse)


def blocks(paths: DataPaths) -> list[Path]:
    assert paths.cache is not None
    return sorted(p for p in (paths.cache / "edits").iterdir() if p.is_dir())


def losses(outcome: Outcome) -> list[float]:
    return [point.metrics["loss"] for point in outcome.points]


def batches_of(settings: dict, paths: DataPaths) -> Batches:
    run = parse_run(settings)
    return Batches.open(run, paths, load_backbone(run.train.encoder))


def test_stored_edits_give_the_curve_of_live_ones_and_a_second_run_shares_them(
    run_of, paths: DataPaths, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(edits, "EDIT_BLOCK", 12)
    live, stored = run_of(), run_of(method_edits="stored")
    assert losses(stored) == losses(live) and len(set(losses(live))) == 7
    assert len(blocks(paths)) == 6
    request.getfixturevalue("no_generator")
    assert losses(run_of(method_edits="stored", train_learning_rate=3e-3)) != losses(live)
    assert losses(run_of(method_edits="stored")) == losses(live)


@pytest.mark.parametrize(
    "change", [{"method_masking_ratio": 0.15}, {"train_seed": 1}, {"method_generator": "words-l2-h128"}]
)
def test_another_ratio_seed_or_generator_has_edits_of_its_own(
    tiny_settings: Settings, paths: DataPaths, change: dict, request: pytest.FixtureRequest
) -> None:
    settings = partial(tiny_settings, "diffcse", method_edits="stored")
    first = batches_of(settings(), paths)[0]
    other = batches_of(settings(**change), paths)
    request.getfixturevalue("no_generator")
    again = batches_of(settings(), paths)[0]
    assert np.array_equal(first.inputs["edited"].ids_T, again.inputs["edited"].ids_T)
    with pytest.raises(RuntimeError, match="a generator is opened"):
        other[0]


def test_ranks_take_their_shares_of_the_same_edits(
    tiny_settings: Settings, paths: DataPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the edge of a block, and with the next line edited too."""
    monkeypatch.setattr(edits, "EDIT_BLOCK", 6)
    batches = batches_of(tiny_settings("diffcse", method_edits="stored", method_source="both"), paths)
    store = batches.store
    assert isinstance(store, StoreWithEdits) and len(batches[0].inputs["edited"].lengths_N) == 32
    rows, whole = batches.order[:8], Place(0, 0, batches.order, 0)
    together = [edit.masked_L.tolist() for edit in store.edits.of(rows, whole)]
    second = [edit.masked_L.tolist() for edit in store.edits.of(rows[4:], replace(whole, first=4))]
    assert second == [edit for first in range(4, 32, 8) for edit in together[first : first + 4]]
    assert len(blocks(paths)) == 2


def test_a_killed_writer_leaves_nothing_half(
    tiny_settings: Settings, paths: DataPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = batches_of(tiny_settings("diffcse", method_edits="stored"), paths)
    child = os.fork()
    if child == 0:
        edits.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        batches[0]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    [aside] = blocks(paths)
    assert aside.name.endswith(f".{child}") and [f.name for f in aside.iterdir()] == ["0.0.flat"]
    expected = batches[0].inputs["edited"].ids_T
    [block] = blocks(paths)
    assert sorted(f.name for f in block.iterdir()) == ["0.0.flat", "0.1.flat", "meta.json"]
    (block / "0.1.flat").write_bytes(b"short")
    fresh = batches_of(tiny_settings("diffcse", method_edits="stored"), paths)
    assert np.array_equal(fresh[0].inputs["edited"].ids_T, expected)


def replaced(settings: dict, paths: DataPaths, live: bool) -> Iterator[float]:
    """Share of replaced tokens in each batch of four epochs."""
    batches = batches_of(settings, paths)
    run = parse_run(settings)
    model = diffcse.DiffCSE.build(run.options, load_backbone(run.train.encoder)).train()
    assert (model.generator is not None) is live and isinstance(batches.store, StoreWithEdits) is not live
    for step in range(20):
        batch = batches[step]
        yield fill(model.generator, batch.inputs["edited"], batch.tensors, False).replaced_fraction().item()


@pytest.mark.parametrize("drawn", [{"method_generator_dropout": True}, {"method_sampling": "sample"}])
def test_where_the_generator_draws_stored_edits_follow_the_distribution_of_live_ones(
    tiny_settings: Settings, paths: DataPaths, drawn: dict
) -> None:
    live, stored = (
        np.array(list(replaced(tiny_settings("diffcse", method_edits=edits, **drawn), paths, edits == "live")))
        for edits in ("live", "stored")
    )
    error = ((live.var() + stored.var()) / len(live)) ** 0.5
    assert not np.array_equal(live, stored)
    assert abs(live.mean() - stored.mean()) < 4 * error and error < 0.03
    assert stored.mean() == pytest.approx(FROZEN[next(iter(drawn))], abs=1e-3)


FROZEN = {"method_generator_dropout": 0.43467, "method_sampling": 0.66410}
"""Share of replaced tokens that the store made when this was written."""


@pytest.mark.parametrize("options", [{"operator": "insert"}, {"task": "masked_lm"}, {"task": "none"}])
def test_edits_that_no_generator_fills_in_place_are_not_stored(
    tiny_settings: Settings, paths: DataPaths, options: dict
) -> None:
    changes = {f"method_{name}": value for name, value in options.items()}
    with pytest.raises(ConfigError, match="^nothing to store: method.edits=stored, method.operator="):
        batches_of(tiny_settings("diffcse", method_edits="stored", **changes), paths)


def test_the_paper_has_no_stored_edits() -> None:
    assert Config().edits == "live"
