"""`train.precision: bf16` on this CPU: our step against our own in fp32 and against the peers' bf16 autocast.

The steps of `benchmarks.step`, of the same weights and sentences, one thread. The peers are given `bf16=True`, as their
users give it; ours multiplies in bf16 by the path that `cse doctor` names, and keeps everything else in fp32.

    python -m benchmarks.step.bf16 [--quick] [--sizes mini,base] [--data DIR]
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.paired import Step, SteppedLoop, Times, interleaved, median_ms, ratio, timed
from benchmarks.step.__main__ import FULL, PEERS, QUICK, QUICK_WARM, WARM, begun
from benchmarks.step.ours import advance, our_session
from benchmarks.step.peers import sentence_transformers_loop, simcse_in_trainer
from benchmarks.step.setting import SIZES, Size, encoder_folder, sentences
from benchmarks.step.turns import TURN, flagged, in_a_row
from cse_train.numerics import bf16_path, gemm_rates

PRECISION = "train.precision"
OURS, OURS_FP32 = "ours", "ours, fp32"
BAR_FP32, BAR_PEERS = 1.5, 2.0


@contextlib.contextmanager
def contenders(size: Size, batch: int, data: Path) -> Iterator[dict[str, Step]]:
    """Our step in both precisions and the peers' in bf16, each with weights and a loop of its own."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        work = Path(name)
        folder, texts = encoder_folder(size, work / "encoder"), sentences(4096, data)
        steps = {}
        for who, precision in ((OURS, "bf16"), (OURS_FP32, "fp32")):
            session = our_session(folder, texts, batch, work / who, {PRECISION: precision}, cache=work / "cache")
            steps[who] = flagged(timed(lambda session=session: advance(session)))  # type: ignore[misc]
        for key, made in (("hf", simcse_in_trainer), ("st", sentence_transformers_loop)):
            loop = made(folder, texts, batch, work / key, {"bf16": True})
            steps[key] = stack.enter_context(SteppedLoop(loop))
        yield steps


def rows(size: Size, batch: int, times: Times) -> list[str]:
    """The table's rows of one size."""
    lines = []
    for name, of in times.items():
        cells = [size.name, str(batch), PEERS.get(name, name), f"{median_ms(of):.1f}", f"{median_ms(of, 'wall'):.1f}"]
        if name == OURS:
            cells += ["1", "1", "", ""]
        else:
            by_cpu, by_wall = ratio(of, times[OURS]), ratio(of, times[OURS], "wall")
            bar = BAR_FP32 if name == OURS_FP32 else BAR_PEERS
            cells += [str(by_cpu), f"{by_wall.median:.2f}", f"{bar:g}", "held" if by_cpu.median >= bar else "MISSED"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    given = begun(__doc__, "mini,base")
    rates = ", ".join(f"{path} {rate:.0f}" for path, rate in gemm_rates().items())
    print(f"GFLOP/s of one thread: {rates}; ours multiplies in bf16 by {bf16_path()}\n")
    print("| size | batch | step, bf16 | CPU ms | wall ms | times ours (CPU) | (wall) | bar | |")
    print("|---" * 9 + "|")
    for name in given.sizes.split(","):
        size, (count, seconds) = SIZES[name], (QUICK if given.quick else FULL)[name]
        batch = 4 if given.quick and name == "base" else size.batch
        with contenders(size, batch, given.data) as steps:
            for _ in range((QUICK_WARM if given.quick else WARM)[name]):
                steps[OURS]()
                steps[OURS_FP32]()
            times = interleaved(
                {who: in_a_row(step, TURN[name]) for who, step in steps.items()}, count, seconds, warm=1
            )
        for line in rows(size, batch, times):
            print(line, flush=True)
    print("\nTimes ours: median over rounds [quartiles].")


if __name__ == "__main__":
    main()
