"""Checks the folder of runs: whether it takes files, and whether every node reads and writes the same folder."""

import contextlib
import platform
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.runtime.join import other_nodes, report_silence, run_on_nodes
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

PROBE = ".cse-probe-"
"""Prefix of the probe files that the check of a storage folder writes and removes again."""


@dataclass(frozen=True, kw_only=True)
class StorageAnswer:
    """Result of the storage check on one node."""

    host: str
    sees: bool
    """True if the driver's probe file is visible on this node."""
    error: str = ""
    absent: tuple[str, ...] = ()


def require_within(root: Path, path: Path) -> Path:
    """Returns `path`; raises ConfigError where a link or `..` leads out of the absolute folder `root`."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise ConfigError([f"out of the storage: path={path} leads to {real}; remove the link, or give its --storage"])
    return path


def check_here(folder: Path) -> None:
    """Makes `folder` if absent; raises ConfigError where this machine cannot write to it."""
    if error := _try_writing(folder, "driver"):
        raise ConfigError([f"storage not writable: storage={folder} ({error}); give a folder that you may write"])


def check_nodes(folder: Path, inputs: Sequence[Path]) -> None:
    """Raises ConfigError naming every other node that lacks the shared folder, this code or one of the inputs."""
    nodes = other_nodes()
    if not nodes:
        return
    token = PROBE + secrets.token_hex(8)
    (folder / token).touch()
    try:
        lines = problems(folder, token, run_on_nodes(nodes, look, str(folder), token, [str(path) for path in inputs]))
    finally:
        for probe in folder.glob(f"{token}*"):
            probe.unlink(missing_ok=True)
    if lines:
        raise ConfigError(lines)


def inputs_of(paths: DataPaths) -> list[Path]:
    """Returns the existing inputs of a sweep; the token cache is left out, since each node keeps its own."""
    return [path for path in paths.inputs() if path.exists()]


def problems(folder: Path, token: str, answers: Mapping[str, StorageAnswer | str]) -> list[str]:
    """Returns one line per node that cannot take part; `answers`: node name -> its result, or why there is none."""
    lines = []
    for node, answer in answers.items():
        if isinstance(answer, str):
            lines.append(report_silence(node, answer))
            continue
        if not answer.sees:
            lines.append(
                f"storage not shared: node={node} storage={folder} does not show there what the driver wrote; "
                "mount one shared folder at this path on every node"
            )
        elif answer.error or not (folder / f"{token}-{answer.host}").exists():
            reason = answer.error or "what it wrote does not arrive here"
            lines.append(f"storage not writable: node={node} storage={folder} ({reason}); allow writing there")
        lines += [f"node without data: node={node} path={path}; copy or mount it there" for path in answer.absent]
    return lines


def look(folder: str, token: str, inputs: Sequence[str]) -> StorageAnswer:
    """Checks the storage folder and the inputs on the node that runs it, as a Ray task."""
    host = platform.node()
    sees = Path(folder, token).is_file()
    error = _try_writing(Path(folder), f"{token}-{host}", keep=True) if sees else ""
    return StorageAnswer(host=host, sees=sees, error=error, absent=tuple(p for p in inputs if not Path(p).exists()))


def _try_writing(folder: Path, name: str, keep: bool = False) -> str:
    """Makes `folder` and writes a probe file there; returns the reason of a failure, empty on success."""
    file = folder / (name if name.startswith(PROBE) else PROBE + name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text("cse", encoding="utf8")
        if not keep:
            file.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        return error.strerror or type(error).__name__
    return ""


DISK_FULL = "disk full"
"""First words of a rank's failure reason where it found no disk space."""


class StorageFailed(RuntimeError):
    """Raised when the folder of runs takes no more files, so that every further run would fail."""


def storage_problem(storage: Path, reason: str) -> str:
    """Returns what is wrong with the storage after a run failed for `reason`; empty where the storage is fine."""
    advice = "runs are given back, the same command continues"
    if reason.startswith(DISK_FULL):
        message = reason.partition(";")[0]
        return f"{message}{f': storage={storage}' if message == DISK_FULL else ''}; free some space: {advice}"
    try:
        check_here(storage)
    except ConfigError as error:
        return f"{error.problems[0].partition(';')[0]}; make it writable: {advice}"
    return ""


@contextlib.contextmanager
def blames_storage(storage: Path) -> Iterator[None]:
    """Turns an OSError inside the block (also of Tune's own files) into StorageFailed where the storage is at fault."""
    try:
        yield
    except OSError as error:
        if problem := storage_problem(storage, ""):
            raise StorageFailed(problem) from error
        raise
