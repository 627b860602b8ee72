"""The folder of runs: what --storage may name, and whether every node reads and writes the same folder there."""

import contextlib
import platform
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cluster.runtime.join import other_nodes, report_silence, run_on_nodes
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

PROBE = ".cse-probe-"
"""Beginning of the names of files that the check writes and removes again."""


@dataclass(frozen=True, kw_only=True)
class StorageAnswer:
    """What is so on one node."""

    host: str
    sees: bool
    """Whether the driver's file is there."""
    error: str = ""
    """Why nothing can be written there; empty where it can."""
    absent: tuple[str, ...] = ()
    """Inputs of the sweep that this node does not have."""


def storage_folder(given: str) -> Path:
    """The absolute folder of a path or a `file://` URI; ConfigError for a URI of something that is no folder."""
    if "://" not in given:
        return Path(given).expanduser().resolve()
    parts = urlsplit(given)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path)).resolve()
    raise ConfigError(
        [
            f"no folder: storage={given}; runs need a file system with rename: "
            "mount it on every node and give the path or file:///PATH"
        ]
    )


def require_within(root: Path, path: Path) -> Path:
    """The path itself; ConfigError where a link or a name with `..` leads out of `root`, an absolute folder."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise ConfigError([f"out of the storage: path={path} leads to {real}; remove the link, or give its --storage"])
    return path


def check_here(folder: Path) -> None:
    """ConfigError where this machine cannot write the folder; makes it if need be."""
    if error := _try_writing(folder, "driver"):
        raise ConfigError([f"storage not writable: storage={folder} ({error}); give a folder that you may write"])


def check_nodes(folder: Path, inputs: Sequence[Path]) -> None:
    """ConfigError naming every node of the cluster that lacks this folder, our code or one of the inputs.

    A node that runs on this very host has been checked with it, and is left out.
    """
    nodes = other_nodes()
    if not nodes:
        return
    token = PROBE + secrets.token_hex(8)
    (folder / token).touch()
    try:
        lines = problems(folder, token, run_on_nodes(nodes, look, str(folder), token, [str(path) for path in inputs]))
    finally:
        for left in folder.glob(f"{token}*"):
            left.unlink(missing_ok=True)
    if lines:
        raise ConfigError(lines)


def inputs_of(paths: DataPaths) -> list[Path]:
    """What the driver has of a sweep's inputs, each once; the token cache is each node's own."""
    return [path for path in paths.inputs() if path.exists()]


def problems(folder: Path, token: str, answers: Mapping[str, StorageAnswer | str]) -> list[str]:
    """One line per node that cannot take part; `answers`: node -> its answer, or why there is none."""
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
    """The answer of this machine; runs on each node."""
    host = platform.node()
    sees = Path(folder, token).is_file()
    error = _try_writing(Path(folder), f"{token}-{host}", keep=True) if sees else ""
    return StorageAnswer(host=host, sees=sees, error=error, absent=tuple(p for p in inputs if not Path(p).exists()))


def _try_writing(folder: Path, name: str, keep: bool = False) -> str:
    """Make the folder and write a file there; empty, or why that fails."""
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
"""How the reason of a rank that found no space begins."""


class StorageFailed(RuntimeError):
    """The folder of runs takes no more files: every further run would fail."""


def storage_problem(storage: Path, reason: str) -> str:
    """What is wrong with the storage after a run failed for this reason; empty where nothing is."""
    advice = "runs are given back, the same command continues"
    if reason.startswith(DISK_FULL):
        said = reason.partition(";")[0]
        return f"{said}{f': storage={storage}' if said == DISK_FULL else ''}; free some space: {advice}"
    try:
        check_here(storage)
    except ConfigError as error:
        return f"{error.problems[0].partition(';')[0]}; make it writable: {advice}"
    return ""


@contextlib.contextmanager
def blames_storage(storage: Path) -> Iterator[None]:
    """An OSError inside, as of Tune's own files, is StorageFailed where the folder of runs takes no files any more."""
    try:
        yield
    except OSError as error:
        if problem := storage_problem(storage, ""):
            raise StorageFailed(problem) from error
        raise
