"""Our own training step, as `cse_train.training.loop` makes it, one step a call."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.step.setting import LENGTH
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import Session

ENDLESS = 10_000_000
"""Examples of a run that no benchmark finishes."""


def our_session(
    folder: Path,
    texts: Sequence[str],
    batch: int,
    work: Path,
    changes: Mapping[str, object] | None = None,
) -> Session:
    """Opens a run over `texts`, written to a file under `work`; nothing is trained yet, `changes` are dotted keys."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "text.txt").write_text("\n".join(texts), encoding="utf8")
    flat: dict[str, object] = {
        "method": "simcse",
        "train.encoder": str(folder),
        "train.corpus": "file",
        "train.dev": "generated_dev:8",
        "train.batch_size": batch,
        "train.examples": ENDLESS,
        "train.evaluations": 1,
        "train.max_seq_length": LENGTH,
    }
    run = parse_run(flat | dict(changes or {}))
    paths = DataPaths(train_file=work / "text.txt", cache=work / "cache")
    session = Session.open(run, paths, work / "run")
    session.model.train()
    return session


def advance(session: Session) -> None:
    """Runs one step as `Session.go` does, without evaluations."""
    session.update()
    session.step += 1
