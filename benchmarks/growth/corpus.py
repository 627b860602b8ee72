"""Memory of a process that opens a corpus and draws an epoch's batches.

A spawned process imports no `__main__` of a package, so what it runs stands here.
"""

import multiprocessing
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.step.setting import one_thread, sentences
from cse_train.backbone.backbone import load_backbone
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.batches import Batches

FEW = 640
"""Lines of the corpus that every other is compared with."""


@dataclass(frozen=True)
class Memory:
    """Megabytes of this process."""

    private: float
    mapped: float
    peak: float

    def beyond(self, before: "Memory") -> "Memory":
        return Memory(self.private - before.private, self.mapped - before.mapped, self.peak - before.peak)


def memory() -> Memory:
    """Proportional shares; the peak is that of the resident set since `forget_peak`."""
    rollup = _fields(Path("/proc/self/smaps_rollup"))
    return Memory(
        rollup["Pss_Anon"] / 1024, rollup["Pss_File"] / 1024, _fields(Path("/proc/self/status"))["VmHWM"] / 1024
    )


def _fields(file: Path) -> dict[str, int]:
    """Its numbers in kB."""
    lines = (line.split() for line in file.read_text().splitlines() if line.endswith("kB"))
    return {fields[0].rstrip(":"): int(fields[1]) for fields in lines}


def forget_peak() -> None:
    """The peak becomes what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def epoch(lines: Path, cache: Path) -> None:
    """Open the corpus and draw every batch of an epoch."""
    run = parse_run({"method": "simcse", "train.encoder": "wiki-l1-h64", "train.corpus": "file"})
    backbone = load_backbone(run.train.encoder, None)
    batches = Batches.open(run, DataPaths(train_file=lines, cache=cache), backbone)
    batches.ids_in_use(backbone.tokenizer)
    for step in range(batches.steps_per_epoch):
        batches[step]
    memories.append(memory())


memories: list[Memory] = []
"""Of a child's epochs, taken while the corpus is open."""


def child(few: Path, lines: Path, cache: Path, pipe: Any) -> None:
    """In a process of its own: the epoch of few lines, then that of all; sends what the second one took more."""
    one_thread()
    epoch(few, cache)
    forget_peak()
    before = memory()
    epoch(lines, cache)
    pipe.send(memories[-1].beyond(before))


def corpus(lines: int, data: Path) -> tuple[Memory, Memory]:
    """What the first run of a corpus takes, and a later one."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        texts = sentences(lines, data, every=1)
        few, many = Path(folder, "few.txt"), Path(folder, "many.txt")
        few.write_text("\n".join(texts[-FEW:]), encoding="utf8")
        many.write_text("\n".join(texts), encoding="utf8")
        memories = []
        for _ in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=child, args=(few, many, Path(folder, "cache"), theirs))
            process.start()
            theirs.close()
            memories.append(ours.recv())
            process.join()
    return memories[0], memories[1]
