"""Whether our training step computes what SimCSE's released one does, on the same real sentences and weights.

Without dropout, from the same start: the first loss, every gradient, and the losses of 40 steps. Two fp32 loops drift
apart whatever they are; the control is the peer against itself with another matrix library (the oneDNN flag). One
drift is a draw: of two equal loops either may be ahead by several times, so medians over seeds are compared,
at the rate of the other rows and at one ten times as high, where both leave the resolution of fp32. With
dropout the masks differ, so the mean loss of the last steps is compared over seeds. Ours carries the corpus's word
embeddings alone, computes [CLS] alone in the last layer and draws its own masks, all of which this puts to the test.

Sizes are random weights, under which all sentences lie close together and gradients cancel; a shipped encoder's name
stands for its trained ones.

    python -m benchmarks.step.equality [--quick] [--sizes tiny,mini,base,wiki-l2-h128] [--data DIR]
"""

import argparse
import copy
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.step.equality_peer import RATE, Peer
from benchmarks.step.ours import our_session
from benchmarks.step.setting import DATA, SIZES, encoder_folder, one_thread, sentences
from cse_train.backbone.folders import shipped_folder
from cse_train.backbone.transformers_io import encoder_to_transformers
from cse_train.encoder.compact_vocabulary import CompactEmbedding
from cse_train.numerics import ONEDNN, fast_fp32, fp32_path
from cse_train.training.loop import Session

if TYPE_CHECKING:
    from torch import Tensor

LOSS_BAR, GRADIENT_BAR = 1e-6, 5e-5
DRIFT_STEPS, DRIFT_SEEDS = 40, 5
FASTER = 1e-3
"""A rate at which losses come apart by more than fp32 resolves; runs of this size are trained at it."""
PEERS: Mapping[str, object] = {"train.adamw": "torch"}
"""The peer's optimiser."""
FIRST_ALONE = "base"
"""It is compared in its first step alone, on a small batch."""
LAST = 20
BATCH, SMALL_BATCH = 64, 4


class Found(NamedTuple):
    """One line of the table: the figure must not exceed the bar."""

    what: str
    figure: float
    bar: float

    def row(self, size: str) -> str:
        """As the table writes it."""
        held = "held" if self.figure <= self.bar else "MISSED"
        return f"| {size} | {self.what} | {self.figure:.2g} | {self.bar:.2g} | {held} |"


def first_step(session: Session, peer: Peer) -> list[Found]:
    """Loss and gradients of the same weights on the same batch; a key's bias is left out: softmax ignores it."""
    with fast_fp32():
        ours = session.model(session.batches[0]).loss
        ours.backward()
    theirs = peer.loss(0)
    exact = copy.copy(peer)
    exact.model = copy.deepcopy(peer.model).double()
    exact.loss(0).backward()
    theirs.backward()
    our_grads, others, true = our_gradients(session), gradients_of(peer), gradients_of(exact)
    resolved = max(GRADIENT_BAR, furthest(others, true))
    session.model.zero_grad()
    peer.model.zero_grad()
    return [
        Found("first loss, difference", abs(ours.item() - theirs.item()), LOSS_BAR),
        Found("gradients, largest relative difference", furthest(our_grads, others), GRADIENT_BAR),
        Found(
            "gradients, ours from fp64; bar: the peer's from fp64 where that is more",
            furthest(our_grads, true),
            resolved,
        ),
    ]


def gradients_of(peer: Peer) -> dict[str, "Tensor"]:
    """Those of the peer's encoder."""
    return {
        name: parameter.grad for name, parameter in peer.model.bert.named_parameters() if parameter.grad is not None
    }


def furthest(measured: Mapping[str, "Tensor"], expected: Mapping[str, "Tensor"]) -> float:
    """Largest difference of two sets of gradients, each tensor's by its largest entry."""
    kept = [name for name in measured if not name.endswith("key.bias")]
    return max(float((measured[n] - expected[n]).abs().max() / expected[n].abs().max()) for n in kept)


def our_gradients(session: Session) -> dict[str, "Tensor"]:
    """Our encoder's gradients under transformers' names; zero for words that the corpus has not."""
    import torch

    ours: Any = session.model
    gradients = {name: parameter.grad for name, parameter in ours.encoder.named_parameters()}
    if isinstance(ours.encoder.word, CompactEmbedding):
        nothing = torch.zeros_like(ours.encoder.word.rest_VH)
        gradients["word.weight"] = ours.encoder.word.whole(gradients["word.weight"], nothing)
    holder = copy.deepcopy(ours.encoder)
    holder.load_state_dict(gradients)
    return encoder_to_transformers(holder)


def losses_of(session: Session, steps: int) -> np.ndarray:
    """Our losses, with the flag as in every run."""
    losses = []
    with fast_fp32():
        for _ in range(steps):
            losses.append(session.update()["loss"].item())
            session.step += 1
    return np.array(losses)


def drift(sessions: Iterable[Session], folder: Path, steps: int) -> Found:
    """Largest difference of the losses of runs without dropout, against the peer's with another matrix library."""
    drifts = np.array([drifts_of(session, folder, steps) for session in sessions])
    ours, control = np.median(drifts, axis=0)
    library = "oneDNN" if fp32_path() == ONEDNN else "the same library"
    what = f"loss drift in {steps} steps, {len(drifts)} seeds; bar: the peer's own under {library}"
    return Found(what, float(ours), float(control))


def drifts_of(session: Session, folder: Path, steps: int) -> tuple[float, float]:
    """Of ours and of the control, each from the plain peer."""
    session.batches[0]
    plain, swapped = Peer(session, folder, 0.0), Peer(session, folder, 0.0)
    expected = np.array([plain.update(step) for step in range(steps)])
    with fast_fp32():
        control = np.array([swapped.update(step) for step in range(steps)])
    ours = losses_of(session, steps)
    return float(np.abs(ours - expected).max()), float(np.abs(control - expected).max())


def with_dropout(folder: Path, texts: list[str], batch: int, work: Path, seeds: int, steps: int) -> Found:
    """Mean loss of the last steps under dropout 0.1, over seeds: the difference of the means in standard deviations."""
    import torch

    ended: list[tuple[float, float]] = []
    for seed in range(seeds):
        changes = {**PEERS, "train.learning_rate": RATE, "train.seed": seed}
        session = our_session(folder, texts, batch, work / f"seed{seed}", changes)
        peer = Peer(session, folder, 0.1)
        ours = losses_of(session, steps)
        torch.manual_seed(1000 + seed)
        theirs = [peer.update(step) for step in range(steps)]
        ended.append((float(ours[-LAST:].mean()), float(np.mean(theirs[-LAST:]))))
    ours_S, theirs_S = np.array(ended).T
    deviation = float(np.sqrt((ours_S.var(ddof=1) + theirs_S.var(ddof=1)) / 2))
    what = f"dropout 0.1: mean loss of steps {steps - LAST + 1} to {steps}, {seeds} seeds, difference / sd"
    return Found(what, abs(float(ours_S.mean() - theirs_S.mean())) / deviation, 1.0)


def measure(name: str, quick: bool, data: Path) -> Iterator[Found]:
    """Every comparison of one size, as it is found."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        folder, texts = weights(name, work), sentences(4096, data)
        still = {**PEERS, "train.learning_rate": RATE, "train.dropout": 0.0}
        batch = SMALL_BATCH if name == FIRST_ALONE else BATCH
        session = our_session(folder, texts, batch, work / "still", still)
        yield from first_step(session, Peer(session, folder, 0.0))
        if name != FIRST_ALONE:
            seeds, steps = (1, 10) if quick else (DRIFT_SEEDS, DRIFT_STEPS)
            for rate in (RATE, FASTER):
                changes = [still | {"train.learning_rate": rate, "train.seed": seed} for seed in range(seeds)]
                made = (our_session(folder, texts, batch, work / f"{rate}-{c['train.seed']}", c) for c in changes)
                drifted = drift(made, folder, steps)
                yield drifted._replace(what=f"rate {rate:g}: {drifted.what}")
        if name == "tiny":
            yield with_dropout(folder, texts, batch, work, *((2, 30) if quick else (5, 60)))


def weights(name: str, work: Path) -> Path:
    """The folder of a size's random weights, or of a shipped encoder."""
    return encoder_folder(SIZES[name], work / "encoder") if name in SIZES else shipped_folder() / name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,mini,base,wiki-l2-h128")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="fewer steps and seeds")
    given = parser.parse_args()
    one_thread()
    print("| size | what | found | at most | |\n|---|---|---|---|---|")
    for name in given.sizes.split(","):
        for row in measure(name, given.quick, given.data):
            print(row.row(SIZES[name].name if name in SIZES else name), flush=True)


if __name__ == "__main__":
    main()
