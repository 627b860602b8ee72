"""A training step of DiffCSE and ESimCSE against the authors' steps.

The peers are rebuilt plainly (`benchmarks.methods_peers`), with torch's AdamW and clipping, on the batches that our
step reads; before anything is timed, the first losses without dropout must agree. Real sentences, random weights, one
thread, fp32; each side as its code multiplies by default, and the peer given our oneDNN flag as well.

    python -m benchmarks.methods [--quick] [--sizes tiny,mini] [--data DIR]
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.paired import Step, interleaved, median_ms, ratio, timed
from benchmarks.step import flagged, in_a_row
from benchmarks.step_ours import advance, our_session
from benchmarks.step_setting import DATA, SIZES, Size, encoder_folder, one_thread, sentences

BARS = {"diffcse": 3.0, "esimcse": 3.0}
AGREE = 1e-4
"""Largest difference of first losses; DiffCSE's goes through two encoders and a projector with BatchNorm."""
WARM = 40
RATE = 3e-5


def generator_folder(size: Size, folder: Path) -> Path:
    """A masked LM of this size's width and half its layers, with random weights."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from benchmarks.step_setting import tokenizer

    torch.manual_seed(1)
    shape = {"hidden_size": size.width, "num_attention_heads": size.heads, "intermediate_size": 4 * size.width}
    config = BertConfig(vocab_size=30522, num_hidden_layers=max(1, size.layers // 2), **shape)
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def options(method: str, work: Path) -> dict[str, object]:
    """What a method's session needs beside its defaults."""
    generator = str(work / "generator")
    own: dict[str, dict[str, object]] = {
        "diffcse": {"method.generator": generator, "method.generator_dropout": False},
        "esimcse": {},
    }
    return {"method": method, "train.learning_rate": RATE} | own[method]


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


def first_losses(method: str, peer: Any, open_one: Callable[[Mapping[str, object]], Any]) -> float:
    """Their difference without dropout, on one batch."""
    session = open_one({"train.dropout": 0.0})
    batch = session.batches[0]
    theirs = peer(session, 0.0)(batch).item()
    return abs(session.model(batch).loss.item() - theirs)


def against_authors(method: str, size: Size, rounds: int, turn: int, work: Path, data: Path) -> list[str]:
    """The rows of one method and size. Raises AssertionError when the first losses differ."""
    from benchmarks.methods_peers import DiffCSEPeer, ESimCSEPeer

    texts = sentences(4096, data)
    opened = iter(range(100))

    def open_one(changes: Mapping[str, object]) -> Any:
        changes = options(method, work) | dict(changes)
        return our_session(work / "encoder", texts, size.batch, work / f"{method}{next(opened)}", changes)

    peer = {"diffcse": DiffCSEPeer, "esimcse": ESimCSEPeer}[method]
    difference = first_losses(method, peer, open_one)
    assert difference < AGREE, (method, difference)
    session, theirs = open_one({}), open_one({})
    authors = timed(peer_step(theirs, peer(theirs, None)))
    steps: dict[str, Step] = {
        "ours": flagged(timed(lambda: advance(session))),
        "the authors' step": authors,
        "the authors' step + flag": flagged(authors),
    }
    for _ in range(WARM // size.layers):
        steps["ours"]()
    times = interleaved({name: in_a_row(step, turn) for name, step in steps.items()}, rounds)
    lines = []
    for who, of in times.items():
        found = ratio(of, times["ours"])
        held = "" if who == "ours" else "held" if found.median >= BARS[method] else "MISSED"
        lines.append(f"| {method} | {size.name} | {who} | {median_ms(of):.0f} | {found} | {BARS[method]} | {held} |")
    return [*lines, f"| {method} | {size.name} | first losses differ by | | {difference:.1e} | {AGREE} | held |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,mini")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="few rounds of the smallest size")
    given = parser.parse_args()
    one_thread()
    import torch

    from cse_train.memory import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    print("| method | size | step | CPU ms | times ours | bar | |\n" + "|---" * 7 + "|")
    for name in ["tiny"] if given.quick else given.sizes.split(","):
        size, rounds, turn = SIZES[name], 3 if given.quick else 9, 3 if name == "tiny" else 1
        with tempfile.TemporaryDirectory() as place:
            work = Path(place)
            encoder_folder(size, work / "encoder")
            generator_folder(size, work / "generator")
            for method in ("diffcse", "esimcse"):
                print("\n".join(against_authors(method, size, rounds, turn, work, given.data)), flush=True)


if __name__ == "__main__":
    main()
