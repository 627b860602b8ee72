"""One SimCSE step on a card in bf16: ours against the HF Trainer and sentence-transformers' trainer, base size.

A turn is a few steps of one contender and one wait for the card; turns in rounds, order reversed every round, ratios by
the wall clock inside a round. Beside the ratio stand the share of the card's peak that the step's matrix products
reach when every sentence fills 32 tokens, what packing gains on real sentences against the same step padded to 32, and
the operations that take the card's time. Without a card the command says so and ends.

    python -m benchmarks.step.gpu [--quick] [--batches 64,512] [--data DIR]
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paired import Seconds, Step, SteppedLoop, Times, interleaved, median_ms, now, ratio
from benchmarks.step.ours import advance, our_session
from benchmarks.step.peers import sentence_transformers_loop, simcse_in_trainer
from benchmarks.step.setting import DATA, LENGTH, SIZES, Size, encoder_folder, sentences
from benchmarks.step.turns import operations
from cse_train.encoder.packing import pack_lists
from cse_train.methods.base import Batch
from cse_train.training.loop import Session

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "A10": 125e12, "T4": 65e12}
"""Dense bf16 operations a second by the makers' data sheets (T4: fp16), by a part of the card's name."""
OURS, PADDED, FULL = "ours", "ours, padded to 32", "ours, every sentence of 32 tokens"
PEERS = {"hf": "SimCSE in the HF Trainer", "st": "sentence-transformers' trainer"}
SHOWN = 12
"""Operations of the profile."""


@dataclass(frozen=True)
class Setting:
    """How long is measured, and where."""

    device: str
    steps: int
    """Of a turn."""
    rounds: int
    warm: int


def turn(step: Any, setting: Setting) -> Step:
    """So many steps and a wait for the card; the mean of a step."""

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

    column, size = session.batches.store.column("text"), session.run.train.batch_size
    batches = []
    for first in range(0, count * size, size):
        rows = [column.row(at) for at in range(first, first + size)]
        text = pack_lists([np.resize(row, LENGTH) for row in rows] if fill else rows, groups=1, width=LENGTH)
        batches.append(Batch({"text": text}, size))
    return batches


class Repeated:
    """Batches made beforehand, in a circle, as `Session.batches`."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def __getitem__(self, step: int) -> Batch:
        return self.batches[step % len(self.batches)]


@contextlib.contextmanager
def contenders(size: Size, batch: int, setting: Setting, data: Path) -> Iterator[dict[str, Any]]:
    """Our step in three forms of the same sentences, and both peers' loops."""
    changes = {"bf16": True, "use_cpu": setting.device == "cpu"}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        work = Path(name)
        folder, texts = encoder_folder(size, work / "encoder"), sentences(max(4096, 8 * batch), data)
        steps: dict[str, Any] = {}
        for who in (OURS, PADDED, FULL):
            session = our_session(folder, texts, batch, work / who, {"train.precision": "bf16"})
            if who != OURS:
                session.batches = Repeated(in_one_group(session, 4, fill=who == FULL))
            steps[who] = lambda session=session: advance(session)
        for key, made in (("hf", simcse_in_trainer), ("st", sentence_transformers_loop)):
            steps[PEERS[key]] = stack.enter_context(SteppedLoop(made(folder, texts, batch, work / key, changes)))
        yield steps


def measure(size: Size, batch: int, setting: Setting, data: Path, peak: float | None) -> list[str]:
    """Markdown of one batch size, with the profile."""
    with contenders(size, batch, setting, data) as steps:
        times = interleaved(
            {who: turn(step, setting) for who, step in steps.items()}, setting.rounds, warm=setting.warm
        )
        work = operations(steps[FULL])
        profile = profiled(steps[OURS], setting)
    return [*rows(batch, times), *limits(batch, times, work, peak), "", *profile]


def rows(batch: int, times: Times) -> list[str]:
    """The table's rows."""
    lines = []
    for who, of in times.items():
        ms = median_ms(of, "wall")
        lines.append(f"| {batch} | {who} | {ms:.2f} | {ratio(of, times[OURS], 'wall')} | {1e3 * batch / ms:.0f} |")
    return lines


def limits(batch: int, times: Times, work: int, peak: float | None) -> list[str]:
    """Packing's gain, and the share of the peak with every slot full."""
    gain = ratio(times[PADDED], times[OURS], "wall")
    rate = work / (median_ms(times[FULL], "wall") / 1e3)
    share = f" = {rate / peak:.1%} of the peak (MFU)" if peak else "; this card's peak is not listed"
    return ["", f"B = {batch}: packing gains {gain}; full sentences {rate / 1e12:.2f} TFLOP/s{share}"]


def profiled(step: Any, setting: Setting) -> list[str]:
    """What a turn's time goes to: the card's operations, and how often one is launched."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    card = setting.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if card else [])]
    with profile(activities=activities) as seen:
        begun = now().wall
        for _ in range(setting.steps):
            step()
        wait(setting.device)
        wall = now().wall - begun
    by = "self_device_time_total" if card else "self_cpu_time_total"
    events = sorted(seen.key_averages(), key=lambda event: getattr(event, by), reverse=True)
    busy = sum(getattr(event, by) for event in events) / 1e6
    kinds = torch.autograd.DeviceType.CUDA if card else torch.autograd.DeviceType.CPU
    count = sum(event.device_type == kinds for event in seen.events()) / setting.steps
    lines = ["| operation | share of the time | calls a step |", "|---|--:|--:|"]
    for event in events[:SHOWN]:
        share = getattr(event, by) / 1e6 / busy
        lines.append(f"| {event.key[:80]} | {share:.1%} | {event.count / setting.steps:.0f} |")
    return [*lines, f"\nbusy {busy / wall:.0%} of the profiled time, {count:.0f} operations a step"]


def peak_of(name: str) -> float | None:
    """The listed peak of a card; None where it is not listed."""
    parts = sorted((part for part in PEAKS if part in name.split() or part in name), key=len)
    return PEAKS[parts[-1]] if parts else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="64,512")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="few rounds of the first batch size")
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no card: torch sees no CUDA device; nothing was measured")
        return
    name = torch.cuda.get_device_name()
    setting = Setting("cuda", 10, 3, 1) if given.quick else Setting("cuda", 20, 9, 3)
    print(f"{name}, torch {torch.__version__}, L12 H768, bf16\n")
    print("| B | step | ms | times ours | sentences/s |\n" + "|---" * 5 + "|")
    batches = [int(batch) for batch in given.batches.split(",")]
    for batch in batches[:1] if given.quick else batches:
        print("\n".join(measure(SIZES["base"], batch, setting, given.data, peak_of(name))), flush=True)


if __name__ == "__main__":
    main()
