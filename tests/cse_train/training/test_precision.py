"""`train.precision`: what it comes to on a device, the flags of a card, and the scaled loss of fp16, without a card."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from cse_train import checkpoint, distributed, numerics
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.results import Outcome, Point
from cse_train.training import fit, loop
from cse_train.training.fit import settle_precision
from cse_train.training.loop import Session, train

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
T4, A100 = (7, 5), (8, 0)
Settings = Callable[..., dict[str, object]]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int]], None]:
    """Pretends a card of a compute capability, as far as it is asked what it can."""

    def pretend(capability: tuple[int, int]) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "Tesla T4")

        def supported(including_emulation: bool = True) -> bool:
            return including_emulation or capability >= A100

        monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)

    return pretend


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    fit._warn_once.cache_clear()
    yield
    fit._warn_once.cache_clear()


def asks(value: str) -> RunConfig:
    return parse_run({"method": "simcse", "train.precision": value})


def settled(value: str, device: torch.device) -> str:
    return settle_precision(asks(value), device).train.precision


def go_on(point: Point) -> bool:
    return False


def curve(outcome: Outcome) -> list[object]:
    return [(point.examples, point.metrics, point.best, point.precision) for point in outcome.points]


def test_auto_is_bf16_on_a_card_that_has_it_and_fp32_elsewhere(
    card: Callable[[tuple[int, int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics, "multiplies_bf16", lambda: True)
    assert settled("auto", CPU) == "fp32", "also on a CPU with AMX"
    card(A100)
    assert settled("auto", CARD) == "bf16"
    monkeypatch.setattr(distributed, "is_agreed", lambda value: False)
    assert settled("auto", CARD) == "fp32", "another rank's card has no bf16"
    monkeypatch.undo()
    card(T4)
    assert settled("auto", CARD) == "fp32"


def test_a_torch_that_counts_emulation_is_asked_for_the_capability(
    card: Callable[[tuple[int, int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    card(T4)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert not numerics.has_bf16(CARD)
    card(A100)
    assert numerics.has_bf16(CARD) and not numerics.has_bf16(CPU)


def test_what_a_device_has_not_is_refused_in_one_line(card: Callable[[tuple[int, int]], None]) -> None:
    card(T4)
    with pytest.raises(ConfigError) as emulated:
        settle_precision(asks("bf16"), CARD)
    line = "no bf16: train.precision=bf16 on Tesla T4, which emulates it slowly; set it to fp16"
    assert emulated.value.problems == [line]
    with pytest.raises(ConfigError) as on_cpu:
        settle_precision(asks("fp16"), CPU)
    line = "no fp16: train.precision=fp16 on a CPU; set it to fp32 or auto, or train on a GPU"
    assert on_cpu.value.problems == [line]
    assert settled("fp16", CARD) == "fp16" and settled("bf16", CPU) == "bf16"
    card(A100)
    assert settled("bf16", CARD) == "bf16"


@pytest.mark.parametrize(("capability", "better"), [(A100, "auto (bf16) or tf32"), (T4, "fp16"), ((6, 1), None)])
def test_fp32_on_a_card_that_can_do_better_is_told_once(
    capability: tuple[int, int],
    better: str | None,
    card: Callable[[tuple[int, int]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    card(capability)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            settle_precision(asks("fp32"), CARD)
            settle_precision(asks("fp32"), CPU)
            settle_precision(asks("fp16"), CARD)
    line = f"slow arithmetic: train.precision=fp32 on Tesla T4; {better} is several times as fast there"
    assert caplog.messages == ([line] if better else [])


@pytest.mark.parametrize(
    ("asked", "device", "capability", "computed"),
    [
        ("tf32", CPU, A100, "fp32"),
        ("fp16", CPU, A100, "fp32"),
        ("tf32", CARD, T4, "fp32"),
        ("tf32", CARD, A100, "tf32"),
        ("fp16", CARD, T4, "fp16"),
        ("bf16", CARD, A100, "bf16"),
        ("fp32", CARD, A100, "fp32"),
    ],
)
def test_what_is_computed_is_what_the_device_has(
    asked: str,
    device: torch.device,
    capability: tuple[int, int],
    computed: str,
    card: Callable[[tuple[int, int]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card(capability)
    assert numerics.precision_of(device, asked) == computed
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype, enabled: (kind, dtype, enabled))
    kind, dtype, enabled = numerics.autocast(device, asked)  # type: ignore[misc]
    assert (kind, enabled) == (device.type, computed in ("bf16", "fp16"))
    assert not enabled or dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[computed]


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def watched(method: Callable[[Session], object], noted: set[tuple[bool, bool]]) -> Callable[[Session], object]:
    """The method, which notes the flags that it meets."""

    def called(session: Session) -> object:
        noted.add(flags())
        return method(session)

    return called


def put_flags(values: tuple[bool, bool]) -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = values


@pytest.fixture
def own_flags() -> Iterator[None]:
    before = flags()
    yield
    put_flags(before)


@pytest.mark.usefixtures("own_flags")
@pytest.mark.parametrize("before", [(False, True), (True, False)])
@pytest.mark.parametrize(("asked", "inside"), [("fp32", False), ("tf32", True), ("bf16", False), ("auto", False)])
def test_a_run_sets_tf32_of_products_and_of_cudnn_and_puts_both_back(
    asked: str,
    inside: bool,
    before: tuple[bool, bool],
    tiny_settings: Settings,
    text_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Evaluations are fp32 in any case."""
    put_flags(before)
    seen: dict[str, set[tuple[bool, bool]]] = {"update": set(), "_dev_score": set()}
    for name, noted in seen.items():
        monkeypatch.setattr(Session, name, watched(getattr(Session, name), noted))
    run = parse_run(tiny_settings("simcse", train_evaluations=2, train_precision=asked))
    train(run, DataPaths(train_file=text_file), tmp_path, go_on)
    assert seen == {"update": {(inside, inside)}, "_dev_score": {(False, False)}}
    assert flags() == before
    with pytest.raises(KeyError), numerics.tf32(True):
        raise KeyError(flags())
    assert flags() == before


def test_on_a_cpu_auto_and_tf32_train_what_fp32_trains(
    tiny_settings: Settings, text_file: Path, tmp_path: Path
) -> None:
    ended = {}
    for asked in ("fp32", "tf32", "auto"):
        run = parse_run(tiny_settings("simcse", train_evaluations=2, train_precision=asked))
        ended[asked] = train(run, DataPaths(train_file=text_file), tmp_path / asked, go_on)
        assert ended[asked].precision == "fp32"
    assert curve(ended["auto"]) == curve(ended["tf32"]) == curve(ended["fp32"])
    assert checkpoint.read_best(tmp_path / "auto")[0].train.precision == "fp32"
    states = [checkpoint.load_last(tmp_path / asked) for asked in ("fp32", "auto")]
    assert states[0] and states[1] and states[0]["signature"] == states[1]["signature"], (
        "one run, whatever it was asked"
    )


def test_a_run_of_another_arithmetic_is_not_gone_on_with(
    tiny_settings: Settings, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: list[int]
) -> None:
    """An auto run that began on a card and is given to a CPU: its signature is the same."""
    run, paths = parse_run(tiny_settings("simcse", train_evaluations=4)), DataPaths(train_file=text_file)
    with monkeypatch.context() as other:
        other.setattr(loop, "precision_of", lambda device, asked: "bf16")
        stopped = train(run, paths, tmp_path, lambda point: point.step == 10, signature="5" * 24)
    assert stopped.precision == "bf16"
    updates.clear()
    ended = train(run, paths, tmp_path, go_on, signature="5" * 24)
    assert updates == list(range(20)) and {point.precision for point in ended.points} == {"fp32"}


def test_a_checkpoint_that_does_not_say_its_arithmetic_is_gone_on_with(
    tiny_settings: Settings, text_file: Path, tmp_path: Path, updates: list[int]
) -> None:
    run, paths = parse_run(tiny_settings("simcse", train_evaluations=4)), DataPaths(train_file=text_file)
    train(run, paths, tmp_path, lambda point: point.step == 10)
    state = checkpoint.load_last(tmp_path)
    assert state is not None and "scaler" not in state
    state["points"] = [{k: v for k, v in point.items() if k != "precision"} for point in state["points"]]
    checkpoint.save_last(tmp_path, state)
    updates.clear()
    train(run, paths, tmp_path, go_on)
    assert updates == list(range(10, 20))


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Gives every run a scaled loss that begins at a factor, as fp16 has on a card."""

    def scale(factor: float) -> None:
        scaler = partial(torch.amp.GradScaler, "cpu", init_scale=factor, growth_interval=4)
        monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: scaler())

    return scale


CLIPPED = {"train_evaluations": 4, "train_max_grad_norm": 0.01}


@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_a_scaled_loss_without_overflow_changes_nothing(
    optimiser: str, scaled: Callable[[float], None], tiny_settings: Settings, text_file: Path, tmp_path: Path
) -> None:
    """A power of two is exact; gradients are clipped at their own size."""
    run = parse_run(tiny_settings("simcse", train_optimiser=optimiser, **CLIPPED))
    paths = DataPaths(train_file=text_file)
    plain = train(run, paths, tmp_path / "plain", go_on)
    scaled(2.0**10)
    assert curve(train(run, paths, tmp_path / "scaled", go_on)) == curve(plain)


def test_skipped_updates_keep_the_schedule_and_a_resume_is_exact(
    scaled: Callable[[float], None],
    tiny_settings: Settings,
    text_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first factors overflow fp32 itself, and later ones grow until they do: updates are skipped again."""
    scaled(2.0**127)
    skipped: list[int] = []
    descend = Session._descend

    def noted(session: Session, loss: torch.Tensor) -> None:
        before = [parameter.detach().clone() for parameter in session.model.parameters()]
        descend(session, loss)
        same = (torch.equal(old, new) for old, new in zip(before, session.model.parameters(), strict=True))
        if all(same):
            skipped.append(session.step)

    monkeypatch.setattr(Session, "_descend", noted)
    run = parse_run(tiny_settings("simcse", train_adamw="uncorrected", **CLIPPED))
    paths = DataPaths(train_file=text_file)
    whole = train(run, paths, tmp_path / "whole", go_on)
    assert skipped[0] == 0 and len(skipped) >= 3 and max(skipped) > 10, skipped
    rates = [point.metrics["learning_rate"] for point in whole.points]
    assert rates == pytest.approx([1e-3 * (20 - step) / 20 for step in (4, 9, 14, 19)])
    every = tuple(skipped)
    skipped.clear()
    train(run, paths, tmp_path / "parts", lambda point: point.step == 10)
    resumed = train(run, paths, tmp_path / "parts", go_on)
    assert tuple(skipped) == every and curve(resumed) == curve(whole)
    states = [checkpoint.load_last(tmp_path / name) for name in ("parts", "whole")]
    one, other = (state or {} for state in states)
    assert one["scaler"] == other["scaler"] and 0 < one["scaler"]["scale"] < 2.0**127
    assert all(torch.equal(one["model"][name], value) for name, value in other["model"].items())
    counts = {float(state["step"]) for state in other["optimiser"]["state"].values()}
    assert counts == {20.0 - (19 in skipped)}


def test_a_state_without_its_scale_is_passed_over(
    scaled: Callable[[float], None],
    tiny_settings: Settings,
    text_file: Path,
    tmp_path: Path,
    updates: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, paths = parse_run(tiny_settings("simcse", train_evaluations=4)), DataPaths(train_file=text_file)
    train(run, paths, tmp_path, lambda point: point.step == 10)
    scaled(2.0**10)
    updates.clear()
    train(run, paths, tmp_path, go_on)
    assert updates == list(range(20)) and "corrupt checkpoint" in caplog.text
