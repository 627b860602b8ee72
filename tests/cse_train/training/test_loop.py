"""The training loop: schedule, evaluation points, exact resume, stop, divergence."""

import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from cse_train import checkpoint, methods
from cse_train.config import TrainConfig, evaluation_steps, parse_run, steps_in
from cse_train.data_paths import DataPaths
from cse_train.evaluate.dev import dev_evaluator
from cse_train.fields import ConfigError
from cse_train.numerics import Diverged
from cse_train.training import loop
from cse_train.training.loop import Outcome, Point, train
from cse_train.training.optimiser import constant, five_steps, learning_rate, linear, plateau, slanted_triangular
from cse_train.user_files import UserFile

KILLED = Path(__file__).parents[1] / "programs" / "killed_run.py"
FROZEN = Path(__file__).parent / "frozen_curves.json"
ROUNDING = {"flow": 2e-3}
"""What another processor's rounding may move a loss by: a flow is fitted to so few sentences that it magnifies it."""


EARLIER = ("d2cse", "dcpcse", "declutr", "diffcse", "esimcse", "simcse")
"""Methods with ledgers from the time when every run used torch's AdamW."""


TO_THE_LETTER = ("consert", "flow", "mirrorbert", "promptbert", "sgopt")
"""Methods of VERSION 2: their options name what the releases do. At what was done before, a run is of VERSION 1."""


def go_on(point: Point) -> bool:
    return False


def curve(outcome: Outcome) -> list[dict]:
    """Everything a run reports but the clock."""
    return [{k: v for k, v in asdict(p).items() if k not in ("seconds", "replayed")} for p in outcome.points]


def last_model(folder: Path) -> dict:
    state = checkpoint.load_last(folder)
    assert state is not None
    return state["model"]


def test_t9_linear_decay_as_in_the_esimcse_log() -> None:
    config = TrainConfig(examples=1_000_064, batch_size=64, learning_rate=3e-5)
    assert steps_in(config) == 15626
    assert learning_rate(config, 500) == pytest.approx(2.9040061e-05, rel=1e-7)
    assert learning_rate(config, 0) == 3e-5


def test_warmup_rises_then_falls() -> None:
    config = TrainConfig(examples=1000, batch_size=10, learning_rate=1.0, warmup_ratio=0.1)
    rates = [learning_rate(config, step) for step in range(100)]
    assert rates[0] == 0.0 and rates[10] == 1.0 and rates[99] == pytest.approx(1 / 90)


@pytest.mark.parametrize("batch_size", [8, 64, 512])
def test_t10_the_number_of_evaluations_does_not_depend_on_the_batch(batch_size: int) -> None:
    config = TrainConfig(examples=102_400, batch_size=batch_size, evaluations=125)
    steps = evaluation_steps(config)
    assert len(steps) == len(set(steps)) == 125 and steps[-1] == steps_in(config)


SOON = "esimcse"
"""Has a queue and a momentum encoder beside weights and moments. Every other method is killed among the slow tests."""


@pytest.mark.parametrize(
    "method", [pytest.param(n, marks=() if n == SOON else pytest.mark.slow) for n in methods.names()]
)
def test_kill_9_and_resume_is_bit_identical(
    method: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    updates: list[int],
) -> None:
    settings, paths = tiny_settings(method, train_evaluations=5), tiny_paths(method)
    step = random.Random(f"{method} 3").randrange(5, 20)
    command = [
        sys.executable,
        str(KILLED),
        json.dumps(settings),
        str(paths.train_file),
        str(tmp_path / "killed"),
        str(step),
    ]
    assert subprocess.run(command, timeout=100).returncode == -9
    run = parse_run(settings)
    seen: list[Point] = []
    resumed = train(run, paths, tmp_path / "killed", lambda p: bool(seen.append(p)))
    assert updates == list(range(step // 4 * 4, 20))
    undisturbed = train(run, paths, tmp_path / "undisturbed", go_on)
    assert [p.replayed for p in seen] == [True] * (step // 4) + [False] * (5 - step // 4)
    assert curve(resumed) == curve(undisturbed)
    one, other = last_model(tmp_path / "killed"), last_model(tmp_path / "undisturbed")
    assert all(torch.equal(one[name], other[name]) for name in other) and one.keys() == other.keys()


@pytest.mark.parametrize("method", methods.names())
def test_a_stopped_run_goes_on_in_another_folder(
    method: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
    updates: list[int],
) -> None:
    run, paths = parse_run(tiny_settings(method, train_evaluations=4)), tiny_paths(method)
    stopped = train(run, paths, tmp_path / "one", lambda p: p.examples >= 80)
    assert (stopped.stopped, stopped.examples) == (True, 80)
    done = train(run, paths, tmp_path / "two", go_on, resume_from=tmp_path / "one")
    assert updates == list(range(20)), "the second attempt begins at update 10"
    assert not done.stopped and curve(done) == curve(train(run, paths, tmp_path / "three", go_on))
    assert checkpoint.read_best(tmp_path / "two")[1]["best"] == done.best


def test_a_finished_run_tells_its_points_again(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    run, paths = parse_run(tiny_settings("simcse", train_evaluations=2)), DataPaths(train_file=text_file)
    first = train(run, paths, tmp_path, go_on)
    again: list[Point] = []
    assert train(run, paths, tmp_path, lambda p: bool(again.append(p))).best == first.best
    assert [p.examples for p in again] == [80, 160] and all(p.replayed for p in again)


def test_best_is_the_first_of_equal_scores(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([10.0, 30.0, 30.0, 20.0])
    monkeypatch.setattr("cse_train.training.loop.Session._dev_score", lambda session: next(scores))
    run = parse_run(tiny_settings("simcse", train_evaluations=4))
    outcome = train(run, DataPaths(train_file=text_file), tmp_path, go_on)
    assert (outcome.best, outcome.best_examples) == (30.0, 80)
    assert [p.best for p in outcome.points] == [10.0, 30.0, 30.0, 30.0]


def test_seconds_are_those_of_dev_evaluations_too(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = loop.Session._dev_score
    monkeypatch.setattr(loop.Session, "_dev_score", lambda session: time.sleep(0.5) or score(session))
    seen: list[Point] = []
    run = parse_run(tiny_settings("simcse", train_evaluations=2))
    ended = train(run, DataPaths(train_file=text_file), tmp_path / "run", lambda point: bool(seen.append(point)))
    assert seen[0].seconds >= 0.5 and seen[1].seconds >= seen[0].seconds + 0.5 and ended.seconds >= seen[1].seconds
    stopped = train(run, DataPaths(train_file=text_file), tmp_path / "two", lambda point: True)
    seen.clear()
    train(run, DataPaths(train_file=text_file), tmp_path / "two", lambda point: bool(seen.append(point)))
    assert seen[0].seconds == stopped.seconds and seen[1].seconds >= stopped.seconds + 0.5, "an attempt counts on"


def test_the_rate_of_a_plateau_falls_with_the_scores_also_after_a_resume(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {5: 10.0, 10: 30.0, 15: 30.0, 20: 40.0}
    monkeypatch.setattr("cse_train.training.loop.Session._dev_score", lambda session: scores[session.step])
    changes = {"train_evaluations": 4, "train_schedule": "plateau", "train_optimiser": "sgd"}
    run = parse_run(tiny_settings("simcse", train_learning_rate=0.1, **changes))
    train(run, DataPaths(train_file=text_file), tmp_path, lambda point: point.step == 15)
    outcome = train(run, DataPaths(train_file=text_file), tmp_path, go_on)
    rates = [point.metrics["learning_rate"] for point in outcome.points]
    assert rates == pytest.approx([0.1, 0.1 * 0.99, 0.1 * 0.99**2, 0.1 * 0.99**3 / 5])


def test_nan_loss_is_one_line(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> None:
    run = parse_run(tiny_settings("simcse", train_learning_rate=1e30, train_max_grad_norm=None))
    with pytest.raises(Diverged, match=r"^(loss is|not finite:) .*; lower train.learning_rate$"):
        train(run, DataPaths(train_file=text_file), tmp_path, go_on)


def test_a_dev_set_that_ranks_nothing_ends_the_run_with_one_line(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    """The tokenizer lowers case: both texts of each pair are one to the encoder."""
    rows = "".join(f"A river {place}\ta RIVER {place}\t{place % 5}\n" for place in range(20))
    (tmp_path / "case.tsv").write_text(f"sentence1\tsentence2\tscore\n{rows}", encoding="utf8")
    run = parse_run(tiny_settings("simcse", train_dev="case"))
    dev = UserFile(name="case", file=str(tmp_path / "case.tsv"), role="dev")
    line = r"^no score: train.dev=case after \d+ examples, the cosines of its 20 pairs are all equal, within rounding; "
    with pytest.raises(Diverged, match=line):
        train(run, DataPaths(train_file=text_file, files=(dev,)), tmp_path / "run", go_on)


def test_an_evaluation_without_a_score_leaves_the_best_checkpoint_as_it_is(
    tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {5: 10.0, 10: math.nan, 15: math.nan, 20: 9.0}
    monkeypatch.setattr("cse_train.training.loop.Session._dev_score", lambda session: scores[session.step])
    run = parse_run(tiny_settings("simcse", train_evaluations=4))
    train(run, DataPaths(train_file=text_file), tmp_path, lambda point: point.step == 15)
    outcome = train(run, DataPaths(train_file=text_file), tmp_path, go_on)
    assert not outcome.stopped and outcome.best == 10.0 and {point.best for point in outcome.points} == {10.0}
    assert len({point.best_examples for point in outcome.points}) == 1
    assert [math.isnan(point.metrics[run.train.dev]) for point in outcome.points] == [False, True, True, False]


def test_corpus_smaller_than_the_batch(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> None:
    run = parse_run(tiny_settings("simcse", train_batch_size=64))
    with pytest.raises(ConfigError, match=r"corpus too small: train.corpus=file has 40 rows; give at least"):
        train(run, DataPaths(train_file=text_file), tmp_path, go_on)


def test_a_method_that_reads_other_columns(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> None:
    run = parse_run(tiny_settings("simcse", method_objective="triplets"))
    with pytest.raises(ConfigError, match=r"wrong columns: train.corpus=file has text; method=simcse reads sent0"):
        train(run, DataPaths(train_file=text_file), tmp_path, go_on)


@pytest.mark.parametrize(
    ("method", "adamw"),
    [*((name, "transformers") for name in methods.names()), *((name, "torch") for name in EARLIER)],
)
def test_frozen_curve(
    method: str, adamw: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> None:
    """20 losses per method and VERSION, torch 2.13 (CSE_FREEZE=1 adds a new VERSION's): no VERSION, no new numbers."""
    run = parse_run(tiny_settings(method, train_adamw=adamw))
    outcome = train(run, tiny_paths(method), tmp_path, go_on)
    losses = [point.metrics["loss"] for point in outcome.points]
    frozen = json.loads(FROZEN.read_text())
    key = f"{method} {run.options.version()} {adamw}"
    if key not in frozen and "CSE_FREEZE" in os.environ:
        FROZEN.write_text(json.dumps(frozen | {key: losses}, indent=1) + "\n")
        return
    assert losses == pytest.approx(frozen[key], abs=ROUNDING.get(method, 1e-4))


@pytest.mark.parametrize("method", TO_THE_LETTER)
def test_what_was_done_before_still_gives_the_first_version_s_curve(
    method: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> None:
    added = methods.config_class(method).ADDED
    run = parse_run(tiny_settings(method, **{f"method_{name}": later.before for name, later in added.items()}))
    assert run.options.version() == 1
    losses = [point.metrics["loss"] for point in train(run, tiny_paths(method), tmp_path, go_on).points]
    frozen = json.loads(FROZEN.read_text())[f"{method} 1 transformers"]
    assert losses == pytest.approx(frozen, abs=ROUNDING.get(method, 1e-4))


@pytest.mark.parametrize(("method", "option"), [("consert", {}), ("promptbert", {}), ("ct", {"method_kept": "better"})])
def test_the_dev_set_is_embedded_as_the_method_says_and_its_best_is_what_is_saved(
    method: str,
    option: dict,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
) -> None:
    """Of CT's two encoders the better one is in the checkpoint; of the others the test's vectors score otherwise."""
    run = parse_run(tiny_settings(method, train_evaluations=4, **option))
    outcome = train(run, tiny_paths(method), tmp_path, go_on)
    _, model, tokenizer = checkpoint.load_model(tmp_path)
    evaluator = dev_evaluator(run.train.dev, DataPaths(), tokenizer, run.train.dev_max_length)
    encode, *_ = model.eval().dev_encodes()
    assert evaluator(encode).value == pytest.approx(outcome.best, abs=1e-3)
    assert (abs(evaluator(model.encode).value - outcome.best) > 1e-3) == (method != "ct")


def test_T9_linear_without_warm_up() -> None:
    """A million sentences in batches of 64: 15,626 updates from 3e-5."""
    assert 3e-5 * linear(500, 15626, 0) == pytest.approx(2.9040061e-05, rel=1e-7)
    assert linear(0, 15626, 0) == 1.0
    assert linear(15626, 15626, 0) == 0.0


def test_linear_warm_up_by_hand() -> None:
    factors = [linear(step, 10, 4) for step in range(11)]
    assert factors == pytest.approx([0, 1 / 4, 1 / 2, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])


def test_linear_that_is_all_warm_up() -> None:
    assert [linear(step, 2, 2) for step in range(3)] == [0, 0.5, 0]


def test_slanted_triangular_by_hand() -> None:
    """20 updates, the first 2 rising; 1/32 at both ends."""
    assert slanted_triangular(0, 20) == 1 / 32
    assert slanted_triangular(1, 20) == pytest.approx((1 + 0.5 * 31) / 32)
    assert slanted_triangular(2, 20) == 1.0
    assert slanted_triangular(11, 20) == pytest.approx((1 + 0.5 * 31) / 32)
    assert slanted_triangular(20, 20) == 1 / 32


def test_slanted_triangular_with_another_cut_and_ratio() -> None:
    factors = [slanted_triangular(step, 8, cut_frac=0.5, ratio=2) for step in range(9)]
    assert factors == pytest.approx([0.5, 0.625, 0.75, 0.875, 1, 0.875, 0.75, 0.625, 0.5])


@pytest.mark.parametrize("total", [1, 9])
def test_slanted_triangular_too_short_to_rise_begins_at_the_peak(total: int) -> None:
    assert slanted_triangular(0, total) == 1.0


def test_the_paper_total_would_end_in_the_rise() -> None:
    """495,243 documents in batches of 16 are 30,953 updates, fewer than a tenth of 495,243."""
    assert slanted_triangular(30953, 495_243) < 0.64
    assert slanted_triangular(30952, 30953) == pytest.approx(1 / 32, abs=1e-4)


def test_constant_after_the_warm_up() -> None:
    assert [constant(step, 4) for step in range(6)] == [0, 1 / 4, 1 / 2, 3 / 4, 1, 1]
    assert constant(0, 0) == 1.0
    config = TrainConfig(examples=1000, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="constant")
    assert [learning_rate(config, step) for step in (0, 5, 10, 99)] == [0.0, 1.0, 2.0, 2.0]


def test_plateau_by_hand() -> None:
    """0.99 at every evaluation; a fifth where 70 comes again, where 60 is less, not where 80 is a new best."""
    factors = [plateau([70.0, 70.0, 60.0, 80.0][:count]) for count in range(5)]
    assert factors == pytest.approx([1, 0.99, 0.99**2 / 5, 0.99**3 / 25, 0.99**4 / 25])
    config = TrainConfig(examples=1000, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="plateau")
    assert learning_rate(config, 5) == 1.0
    assert learning_rate(config, 50, [70.0, 60.0]) == pytest.approx(2 * 0.99**2 / 5)


def test_five_steps_by_hand() -> None:
    """Of 20 updates the first three (from 0 to 2) are at the peak, and from the tenth on all at a fifth of it."""
    factors = [five_steps(step, 20) for step in range(20)]
    assert factors == pytest.approx([1] * 3 + [0.8] * 2 + [0.6] * 2 + [0.4] * 2 + [0.2] * 11)
    config = TrainConfig(examples=200, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="five_steps")
    assert [learning_rate(config, step) for step in (1, 2, 3, 19)] == pytest.approx([1.0, 2.0, 1.6, 0.4])
