"""`python -m benchmarks.saving`: bytes that a run of 125 evaluations writes, and how long its steps wait for them.

The encoder is BERT-base's shape with random weights, or a folder. The run's folder is throttled: a file counts as
written after as long as a disk of --rate takes. A checkpoint that is waited for is measured at three evaluations, and
counts 125 times; behind the step the whole run is trained. It has few steps between evaluations: what they would take
at --seconds between two evaluations is what the share is of.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.made_text import written
from cse_train import checkpoint, files
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.results import Point
from cse_train.training.async_checkpoints import Checkpoints
from cse_train.training.loop import train
from cse_train.training.saver import SAVE_MINUTES

EVALUATIONS, WAITED_FOR = 125, 3


def make_encoder(folder: Path) -> Path:
    """BERT-base's shape, with a tokenizer of ours."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    BertModel(BertConfig(), add_pooling_layer=False).save_pretrained(folder)
    AutoTokenizer.from_pretrained(find_weights() / "wiki-l2-h128").save_pretrained(folder)
    return folder


class Measured:
    """Bytes of checkpoints and seconds that a run waits for them, through a disk of `rate` bytes a second."""

    def __init__(self, rate: float) -> None:
        self.rate, self.bytes, self.writes = rate, 0, 0
        self.waits: list[float] = []
        replace, take, finish = files.replace_file, Checkpoints.take, Checkpoints.finish

        def throttled(path: Path, write: Callable[[Path], object]) -> None:
            begun = time.monotonic()
            replace(path, write)
            size = path.stat().st_size
            self.bytes, self.writes = self.bytes + size, self.writes + 1
            time.sleep(max(0.0, size / self.rate - (time.monotonic() - begun)))

        for owner, name, call in (
            (checkpoint, "replace_file", throttled),
            (Checkpoints, "take", self._clocked(take)),
            (Checkpoints, "finish", self._clocked(finish)),
        ):
            setattr(owner, name, call)

    def _clocked(self, call: Callable[..., None]) -> Callable[..., None]:
        def clocked(*given: Any) -> None:
            begun = time.monotonic()
            call(*given)
            self.waits.append(time.monotonic() - begun)

        return clocked

    def clear(self) -> None:
        self.bytes, self.writes, self.waits = 0, 0, []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, help="a folder (BERT-base's shape)")
    parser.add_argument("--rate", type=float, default=100.0, help="MB/s of the disk")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1, help="between two evaluations")
    parser.add_argument("--seconds", type=float, help="of training between two evaluations (what was measured)")
    parser.add_argument("--minutes", type=float, default=SAVE_MINUTES)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(measure(asked, Path(name)), indent=1))


def measure(asked: argparse.Namespace, work: Path) -> dict[str, float]:
    """Both ways, in numbers."""
    text = written(work / "text.txt", 256)
    run = parse_run(
        {
            "method": "simcse",
            "train.encoder": str(asked.encoder or make_encoder(work / "encoder")),
            "train.corpus": "file",
            "train.dev": "generated_dev:8",
            "train.batch_size": asked.batch,
            "train.examples": EVALUATIONS * asked.batch * asked.steps,
            "train.evaluations": EVALUATIONS,
        }
    )
    paths, disk = DataPaths(train_file=text, cache=work / "cache"), Measured(1e6 * asked.rate)

    steps: int = WAITED_FOR * asked.steps

    def report(point: Point) -> bool:
        return point.step == steps

    train(run, paths, work / "waited", report, save_minutes=0)
    waited, per_evaluation = disk.bytes / WAITED_FOR, sum(disk.waits) / WAITED_FOR
    disk.clear()
    begun = time.monotonic()
    outcome = train(run, paths, work / "behind", lambda point: False, save_minutes=asked.minutes)
    whole, (*takes, end) = time.monotonic() - begun, disk.waits
    between = asked.seconds or (outcome.seconds - sum(takes)) / EVALUATIONS
    return {
        "waited_for_bytes": waited * EVALUATIONS,
        "waited_for_s": per_evaluation * EVALUATIONS,
        "behind_bytes": disk.bytes,
        "behind_files": disk.writes,
        "behind_share_of_bytes": disk.bytes / (waited * EVALUATIONS),
        "behind_waits_s": sum(takes),
        "longest_wait_s": max(takes),
        "end_waits_s": end,
        "run_s": whole,
        "between_s": between,
        "share_of_time": sum(takes) / (between * EVALUATIONS),
        "share_of_time_waited_for": per_evaluation / between,
    }


if __name__ == "__main__":
    main()
