"""A training step of DiffCSE, ESimCSE and DeCLUTR against the authors' steps; D2CSE's against training all weights.

The peers are rebuilt plainly (`benchmarks.methods.peers`, `methods_declutr`), with torch's AdamW and clipping, on the
batches that our step reads; before anything is timed, the first losses without dropout must agree. Real sentences,
random weights, one thread, fp32; each side as its code multiplies by default, and the peer given our oneDNN flag as
well. D2CSE: `benchmarks.methods.d2cse`.

    python -m benchmarks.methods [--quick] [--sizes tiny,mini] [--methods diffcse,esimcse,declutr,d2cse] [--data DIR]
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.methods.d2cse import against_all_weights
from benchmarks.methods.declutr import DeCLUTRPeer
from benchmarks.methods.peers import DiffCSEPeer, ESimCSEPeer
from benchmarks.methods.setting import RATE, Contest, contests, folders
from benchmarks.paired import Step, interleaved, median_ms, ratio, timed
from benchmarks.step.ours import advance
from benchmarks.step.setting import DATA, SIZES, Size, one_thread
from benchmarks.step.turns import TURN, flagged, in_a_row, operations
from cse_train.numerics import keep_freed_memory

AGREE = 1e-4
"""Largest difference of first losses; DiffCSE's goes through two encoders and a projector with BatchNorm."""
WARM = {"diffcse": 40, "esimcse": 160, "declutr": 40}
"""Steps of ours before the first round, times layers; ESimCSE's batches have the most shapes for oneDNN to compile."""
AUTHORS = "the authors'"


def peers() -> dict[str, Any]:
    """Method -> the authors' step, a module that takes our session and another dropout rate."""
    return {"diffcse": DiffCSEPeer, "esimcse": ESimCSEPeer, "declutr": DeCLUTRPeer}


def peer_step(session: Any, model: Any) -> Callable[[], None]:
    """The rebuilt step on the batches of a session of its own."""
    import torch

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0)

    def step() -> None:
        model(session.batches[session.step]).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        session.step += 1

    return step


def first_losses(contest: Contest, peer: Any) -> float:
    """Their largest difference without dropout, on one batch, over our ways of making the step."""
    differences = []
    for changes in contest.ours.values():
        session, live = contest.session({"train.dropout": 0.0} | changes), contest.session({"train.dropout": 0.0})
        theirs = peer(live, 0.0)(live.batches[0]).item()
        differences.append(abs(session.model(session.batches[0]).loss.item() - theirs))
    return max(differences)


def contenders(contest: Contest, peer: Any) -> dict[str, Step]:
    """Our steps, the authors', and the authors' given the flag."""
    steps: dict[str, Step] = {}
    for name, changes in contest.ours.items():
        session = contest.session(changes)
        steps[name] = flagged(timed(lambda session=session: advance(session)))
    theirs = contest.session({})
    authors = timed(peer_step(theirs, peer(theirs, None)))
    return steps | {AUTHORS: authors, f"{AUTHORS} + flag": flagged(authors)}


def against_authors(contest: Contest, size: Size, rounds: int, turn: int) -> list[str]:
    """The rows of one method and size. Raises AssertionError when the first losses differ."""
    peer = peers()[contest.method]
    difference = first_losses(contest, peer)
    assert difference < AGREE, (contest.method, difference)
    steps = contenders(contest, peer)
    for _ in range(WARM[contest.method] // size.layers):
        for name in contest.ours:
            steps[name]()
    times = interleaved({name: in_a_row(step, turn) for name, step in steps.items()}, rounds)
    work = {name: operations(step) for name, step in steps.items()}
    lines = []
    for name in contest.ours:
        lines.append(row(contest.method, size, name, f"{median_ms(times[name]):.0f}", "1", "", ""))
        for who in (AUTHORS, f"{AUTHORS} + flag"):
            times_ours, bar, spent = ratio(times[who], times[name]), contest.bars[name], f"{median_ms(times[who]):.0f}"
            held = "held" if times_ours.median >= bar else "MISSED"
            lines.append(row(contest.method, size, f"{who} against {name}", spent, times_ours, bar, held))
        share = f"{work[AUTHORS] / work[name]:.2f}"
        lines.append(row(contest.method, size, f"matrix products, {AUTHORS} by {name}", "", share, "", ""))
    return [*lines, row(contest.method, size, "first losses differ by", "", f"{difference:.1e}", AGREE, "held")]


def row(*cells: object) -> str:
    """A line of the table."""
    return "| " + " | ".join(cell.name if isinstance(cell, Size) else str(cell) for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,mini")
    parser.add_argument("--methods", default="diffcse,esimcse,declutr,d2cse")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="few rounds of the smallest size")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    print("| method | size | step | CPU ms | times ours | bar | |\n" + "|---" * 7 + "|")
    for name in ["tiny"] if given.quick else given.sizes.split(","):
        size, rounds, turn = SIZES[name], 3 if given.quick else 9, TURN[name]
        with tempfile.TemporaryDirectory() as place:
            work = folders(size, Path(place))
            for method in given.methods.split(","):
                if method == "d2cse":
                    lines = against_all_weights(size, rounds, turn, work, given.data)
                else:
                    lines = against_authors(contests(method, size, work, given.data), size, rounds, turn)
                print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
