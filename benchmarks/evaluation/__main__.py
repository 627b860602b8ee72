"""Evaluations against SentEval's way: STS-B dev during training, and the suite of transfer tasks.

Dev: every evaluation of SimCSE's released trainer encodes STS-B train, dev and test and all of SICK-R, pair by pair in
batches of 128 that are sorted by characters, tokenised each time and padded to the longest; only STS-B dev selects the
checkpoint, so that part alone is a row of its own. Ours encodes the distinct sentences of STS-B dev, tokenised once.
Both use random weights of one size, bare [CLS], one thread and real sentences; CPU seconds in turns, order reversed
every round. The transfer tasks are those of `benchmarks.evaluation.transfer`.

    python -m benchmarks.evaluation [--quick] [--only dev|transfer] [--sizes tiny,mini] [--data DIR]
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.evaluation import transfer
from benchmarks.evaluation.released import RELEASED, senteval_way
from benchmarks.paired import Times, interleaved, median_ms, ratio, timed
from benchmarks.step.ours import advance, our_session
from benchmarks.step.setting import DATA, SIZES, Size, encoder_folder, one_thread, sentences
from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import evaluating
from cse_train.evaluate.pairs import load_pairs
from cse_train.numerics import fast_fp32, keep_freed_memory

STEPS = 125
BAR, SHARE_BAR = 5.0, 0.025
ROUNDS = {"tiny": 5, "mini": 2}
OURS, DEV, EVERY = "ours", "SentEval's way, dev alone", "SentEval's way, as released"


def measure(size: Size, rounds: int, data: Path) -> tuple[Times, Times]:
    """Evaluations of the three contenders, and single training steps of ours. Raises where dev scores differ."""
    from transformers import AutoTokenizer, BertModel

    sets = {name: load_pairs(name, DataPaths.from_folder(data)) for name in RELEASED}
    with tempfile.TemporaryDirectory() as place:
        folder = encoder_folder(size, Path(place) / "encoder")
        session = our_session(folder, sentences(1024, data), size.batch, Path(place) / "run", senteval=data)
        peer, tokenizer = BertModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
        model: Any = session.model

        def ours() -> float:
            with fast_fp32(), evaluating(model):
                return session.evaluator(model.encode).spearman

        def step() -> None:
            with fast_fp32():
                advance(session)

        same = ours(), senteval_way(peer, tokenizer, [sets["sts_dev"]])[0]
        assert abs(same[0] - same[1]) < 0.01, same
        contenders = {
            OURS: timed(ours),
            DEV: timed(lambda: senteval_way(peer, tokenizer, [sets["sts_dev"]])),
            EVERY: timed(lambda: senteval_way(peer, tokenizer, list(sets.values()))),
        }
        return interleaved(contenders, rounds), interleaved({"step": timed(step)}, 20, warm=10)


def rows(size: Size, times: Times, steps: Times) -> Iterator[str]:
    """Lines of Markdown."""
    for who, of in times.items():
        times_ours = ratio(of, times[OURS])
        bar = "" if who == OURS else "held" if times_ours.median >= BAR else "MISSED"
        yield f"| {size.name} | {who} | {median_ms(of) / 1e3:.2f} | {times_ours} | {bar} |"
    share = median_ms(times[OURS]) / (STEPS * median_ms(steps["step"]))
    held = "held" if share <= SHARE_BAR else "MISSED"
    yield f"| {size.name} | ours, share of {STEPS} steps (bar {SHARE_BAR:.1%}) | | {share:.1%} | {held} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,mini")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", choices=("dev", "transfer"), help="one of the two tables")
    parser.add_argument("--quick", action="store_true", help="one round of the smallest size, one transfer task")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    if given.only != "transfer":
        print(f"load {os.getloadavg()[0]:.1f}\n| size | who | CPU s | times ours | bar {BAR:g} |\n" + "|---" * 5 + "|")
        for name in ["tiny"] if given.quick else given.sizes.split(","):
            for line in rows(SIZES[name], *measure(SIZES[name], 1 if given.quick else ROUNDS[name], given.data)):
                print(line, flush=True)
    if given.only != "dev":
        print()
        transfer.report(transfer.ENCODER, ["cr"] if given.quick else list(transfer.TASKS), given.data)


if __name__ == "__main__":
    main()
