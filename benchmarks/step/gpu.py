"""One SimCSE step on a card in bf16: ours against the HF Trainer and sentence-transformers' trainer.

A turn is a few steps of one contender and one wait for the card; turns in rounds, order reversed every round, ratios by
the wall clock inside a round. Beside the ratio stand the kernels that a step launches, the share of the card's peak
that the step's matrix products reach when every sentence fills 32 tokens, what packing gains on sentences as they are
against the same step padded to 32, and the operations that take the card's time. A peer whose packages are absent is
named. Text is made up. The command is `benchmarks.gpu`, whose parts `step` and `compile` are made of this.
"""

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.made_text import lines as made_lines
from benchmarks.paired import Seconds, Step, SteppedLoop, Times, interleaved, median_ms, now, ratio
from benchmarks.step.ours import advance, our_session
from benchmarks.step.peers import sentence_transformers_loop, simcse_in_trainer
from benchmarks.step.setting import LENGTH, Size, encoder_folder
from benchmarks.step.turns import operations
from cse_train.encoder.folders import find_weights
from cse_train.encoder.packing import pack_lists
from cse_train.methods.base import Batch
from cse_train.training.loop import Session

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "A10": 125e12, "T4": 65e12}
"""Dense bf16 operations a second by the makers' data sheets (T4: fp16), by a part of the card's name."""
OURS, PADDED, FULL = "ours", "ours, padded to 32", "ours, every sentence of 32 tokens"
GRAPH_AUTO, FULL_GRAPH = "ours, train.graph auto", "ours, every sentence of 32 tokens, train.graph auto"
GRAPHED, GRAPHS = "ours, padded to 32, with CUDA graphs", "reduce-overhead"
"""Name of our form with CUDA graphs, and torch.compile's mode for it."""
PEERS = {"SimCSE in the HF Trainer": simcse_in_trainer, "sentence-transformers' trainer": sentence_transformers_loop}
NEEDS = dict(zip(PEERS, (("accelerate",), ("sentence_transformers", "accelerate", "datasets")), strict=True))
"""Peer -> the packages that its trainer imports beside transformers."""
BF16 = {"train.precision": "bf16"}
SHOWN = 12
"""Operations of the profile."""
HEAD = ["| model | B | step | ms | times ours | sentences/s | launches a step |", "|---" * 7 + "|"]


@dataclass(frozen=True)
class Setting:
    """Length and device of a measurement."""

    device: str
    steps: int
    """Number of steps in a turn."""
    rounds: int
    warm: int
    seconds: float = float("inf")
    """After which no further round begins."""
    compiler: str = "inductor"
    """torch.compile's backend."""


@dataclass(frozen=True)
class Place:
    """Encoder, sentences and folder that the contenders of one size and batch share."""

    folder: Path
    texts: Sequence[str]
    batch: int
    work: Path
    setting: Setting


def lacking(peer: str) -> list[str]:
    """Packages without which a peer cannot be run."""
    return [name for name in NEEDS[peer] if importlib.util.find_spec(name) is None]


def turn(step: Any, setting: Setting) -> Step:
    """Returns a step that runs `setting.steps` steps, waits for the GPU, and gives the mean time of one."""

    def steps() -> Seconds:
        begun = now()
        for _ in range(setting.steps):
            step()
        wait(setting.device)
        ended = now()
        return Seconds((ended.cpu - begun.cpu) / setting.steps, (ended.wall - begun.wall) / setting.steps)

    return steps


def wait(device: str) -> None:
    """Until the card has done all that it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def in_one_group(session: Session, count: int, *, fill: bool) -> list[Batch]:
    """Batches of the session's corpus in one group 32 wide: padded, or each sentence repeated until it fills it."""
    import numpy as np

    column, size = session.batches.source.store.column("text"), session.run.train.batch_size
    batches = []
    for first in range(0, count * size, size):
        rows = [column.row(at) for at in range(first, first + size)]
        text = pack_lists([np.resize(row, LENGTH) for row in rows] if fill else rows, groups=1, width=LENGTH)
        batches.append(Batch({"text": text}, size))
    return batches


class Repeated:
    """Batches made beforehand, in a circle."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def __getitem__(self, step: int) -> Batch:
        return self.batches[step % len(self.batches)]


@contextlib.contextmanager
def place(size: Size, batch: int, setting: Setting) -> Iterator[Place]:
    """An encoder of random weights, and made-up sentences."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as name:
        words = AutoTokenizer.from_pretrained(find_weights() / "tokenizer")
        folder = encoder_folder(size, Path(name) / "encoder", words)
        yield Place(folder, made_lines(max(4096, 8 * batch)), batch, Path(name), setting)


def our_step(place: Place, form: str, compiled: bool = False, changes: Mapping[str, Any] = BF16) -> Any:
    """Returns the optimiser step of one of our forms."""
    import torch

    work = place.work / f"{form}{' compiled' if compiled else ''}"
    session = our_session(place.folder, place.texts, place.batch, work, changes)
    if form not in (OURS, GRAPH_AUTO):
        fill = form in (FULL, FULL_GRAPH)
        session.batches.source = Repeated(in_one_group(session, 4, fill=fill))  # type: ignore[assignment]
    if compiled:
        mode = GRAPHS if form == GRAPHED else None
        session.trained = torch.compile(session.trained, backend=place.setting.compiler, mode=mode)  # type: ignore
    return lambda: advance(session)


def peer_step(place: Place, peer: str, compiled: bool = False) -> SteppedLoop:
    """Returns a peer's training loop as a context manager that is stepped."""
    changes = {"bf16": True, "use_cpu": place.setting.device == "cpu", "torch_compile": compiled}
    if compiled:
        changes["torch_compile_backend"] = place.setting.compiler
    output = place.work / f"peer{list(PEERS).index(peer)}{compiled}"
    return SteppedLoop(PEERS[peer](place.folder, place.texts, place.batch, output, changes))


@contextlib.contextmanager
def contenders(place: Place) -> Iterator[dict[str, Any]]:
    """Our step in forms of the same sentences, and the loops of the peers that are at hand."""
    with contextlib.ExitStack() as stack:
        steps: dict[str, Any] = {form: our_step(place, form) for form in (OURS, PADDED, FULL)}
        steps |= {
            form: our_step(place, form, changes=BF16 | {"train.graph": "auto"}) for form in (GRAPH_AUTO, FULL_GRAPH)
        }
        steps |= {peer: stack.enter_context(peer_step(place, peer)) for peer in PEERS if not lacking(peer)}
        yield steps


def measure(size: Size, batch: int, setting: Setting, peak: float | None) -> tuple[list[str], dict[str, Any]]:
    """Markdown of one size and batch, with the profile; and the figures, which docs/performance.md takes up."""
    with place(size, batch, setting) as at, contenders(at) as steps:
        turns = {who: turn(step, setting) for who, step in steps.items()}
        times = interleaved(turns, setting.rounds, setting.seconds, warm=setting.warm)
        work = operations(steps[FULL])
        launched = {who: launches(step, setting) for who, step in steps.items()}
        profile = profiled(steps[OURS], setting)
    absent = [
        f"\n{peer} was not run: {', '.join(gone)} cannot be imported" for peer in PEERS if (gone := lacking(peer))
    ]
    lines = [*HEAD, *rows(size, batch, times, launched), *absent, *limits(batch, times, work, peak), "", *profile]
    return lines, figures(size, batch, times, launched, work, peak)


def figures(
    size: Size, batch: int, times: Times, launched: Mapping[str, float], work: int, peak: float | None
) -> dict[str, Any]:
    """Returns the figures of a contender: `ratio` is its time divided by ours, with quartiles."""
    steps = [
        {
            "step": who,
            "ms": median_ms(of, "wall"),
            "ratio": asdict(ratio(of, times[OURS], "wall")),
            "launches": launched[who],
        }
        for who, of in times.items()
    ]
    fastest = min(median_ms(times[form], "wall") for form in (FULL, FULL_GRAPH))
    share = work / (fastest / 1e3) / peak if peak else None
    return {"size": size.name, "batch": batch, "steps": steps, "share_of_peak": share}


def rows(size: Size, batch: int, times: Times, launched: dict[str, float]) -> list[str]:
    """The table's rows."""
    lines = []
    for who, of in times.items():
        ms = median_ms(of, "wall")
        cells = [size.name, str(batch), who, f"{ms:.2f}", str(ratio(of, times[OURS], "wall"))]
        lines.append(f"| {' | '.join([*cells, f'{1e3 * batch / ms:.0f}', f'{launched[who]:.0f}'])} |")
    return lines


def limits(batch: int, times: Times, work: int, peak: float | None) -> list[str]:
    """Packing's gain, and the share of the peak with every slot full, as it is and compiled."""
    gain = ratio(times[PADDED], times[OURS], "wall")
    rates = [work / (median_ms(times[form], "wall") / 1e3) for form in (FULL, FULL_GRAPH)]
    shares = [f" = {rate / peak:.1%} of the peak (MFU)" if peak else "" for rate in rates]
    said = ", with train.graph auto ".join(
        f"{rate / 1e12:.2f} TFLOP/s{share}" for rate, share in zip(rates, shares, strict=True)
    )
    unlisted = "" if peak else "; this card's peak is not listed"
    return ["", f"B = {batch}: packing gains {gain}; full sentences {said}{unlisted}"]


def seen_by_the_profiler(step: Any, setting: Setting) -> tuple[Any, float]:
    """The profile of a turn, and its seconds."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if setting.device == "cuda" else [])]
    with profile(activities=activities) as seen:
        begun = now().wall
        for _ in range(setting.steps):
            step()
        wait(setting.device)
        wall = now().wall - begun
    return seen, wall


def launches(step: Any, setting: Setting) -> float:
    """Kernels and graphs that the processor hands to the card in a step, by CUDA's own calls; 0 on a CPU."""
    events = seen_by_the_profiler(step, setting)[0].key_averages()
    calls = [e for e in events if e.key.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch"))]
    return float(sum(event.count for event in calls)) / setting.steps


def profiled(step: Any, setting: Setting) -> list[str]:
    """Returns lines with the GPU's operations in a turn, by time, and how often each is launched."""
    import torch

    card = setting.device == "cuda"
    seen, wall = seen_by_the_profiler(step, setting)
    by = "self_device_time_total" if card else "self_cpu_time_total"
    events = sorted(seen.key_averages(), key=lambda event: getattr(event, by), reverse=True)
    busy = sum(getattr(event, by) for event in events) / 1e6
    kinds = torch.autograd.DeviceType.CUDA if card else torch.autograd.DeviceType.CPU
    count = sum(event.device_type == kinds for event in seen.events()) / setting.steps
    if not busy:
        return ["The profiler saw no operation of the card: its counters cannot be read on this machine."]
    lines = ["| operation | share of the time | calls a step |", "|---|--:|--:|"]
    for event in events[:SHOWN]:
        share = getattr(event, by) / 1e6 / busy
        lines.append(f"| {event.key[:80]} | {share:.1%} | {event.count / setting.steps:.0f} |")
    return [*lines, f"\nbusy {busy / wall:.0%} of the profiled time, {count:.0f} operations a step"]


def compiled(size: Size, batch: int, who: str, setting: Setting) -> list[str]:
    """Compares a contender with itself under torch.compile: the ratio, and the seconds that compiling took."""
    import torch

    torch._dynamo.reset()
    with place(size, batch, setting) as at, contextlib.ExitStack() as stack:
        if who in PEERS:
            plain, fast = (stack.enter_context(peer_step(at, who, compiled=flag)) for flag in (False, True))
        else:
            # The compiler does not take the CPU's products in bf16 and masks of 16 bits.
            changes: Mapping[str, Any] = BF16 if setting.device == "cuda" else {"train.dropout": 0.0}
            plain, fast = (our_step(at, who, flag, changes) for flag in (False, True))
        begun = now().wall
        for _ in range(4):  # of several lengths
            fast()
        wait(setting.device)
        first = now().wall - begun
        turns = {"plain": turn(plain, setting), "compiled": turn(fast, setting)}
        times = interleaved(turns, setting.rounds, setting.seconds, warm=setting.warm)
        launched = {name: launches(step, setting) for name, step in (("plain", plain), ("compiled", fast))}
    lines = ["| model | B | step | | ms | times compiled | launches a step |", "|---" * 7 + "|"]
    for name, of in times.items():
        cells = [size.name, str(batch), who, name, f"{median_ms(of, 'wall'):.2f}"]
        lines.append(f"| {' | '.join([*cells, str(ratio(of, times['compiled'], 'wall')), f'{launched[name]:.0f}'])} |")
    graphs = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)
    return [*lines, f"\nIts first four steps took {first:.1f} s; {graphs} graphs were compiled."]


def peak_of(name: str) -> float | None:
    """The listed peak of a card; None where it is not listed."""
    parts = sorted((part for part in PEAKS if part in name.split() or part in name), key=len)
    return PEAKS[parts[-1]] if parts else None
