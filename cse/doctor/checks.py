"""Checks of `cse doctor` on this machine and on the nodes of a cluster.

Each returns findings; a finding that stops a sweep names its fix.
"""

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from analysis.ledger import Ledger, LedgerError, mask_password, network_file_system
from analysis.ledger.database import parse_url
from analysis.tables.labels import number_of
from cluster.plan.planner import plan_all
from cluster.runtime.code_version import code_digest, find_version, package_folder
from cluster.runtime.join import other_nodes, report_silence, run_on_nodes
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import (
    cards_of,
    check_cards,
    cluster_nodes,
    group_memory_gb,
    limit,
    local_kinds,
    slots_that_fit,
    this_machine,
)
from cluster.runtime.start import ray_cluster, require_token
from cluster.runtime.storage import check_here, check_nodes
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.missing_inputs import group_by_reason

Level = Literal["fine", "note", "stop"]
COMPARED_PACKAGES = ("ray", "torch", "transformers", "tokenizers", "numpy", "optuna")
"""Packages whose versions must agree on all nodes of a sweep."""
DISK_GB = 1.0
"""Free disk space in GiB below which a sweep is expected to fail with a full disk."""
RAY_FULL = 0.95
"""Used share of the disk with Ray's sessions above which Ray refuses to write objects there."""
_GB = 1024**3


@dataclass(frozen=True)
class Finding:
    """One result of a check of `cse doctor`."""

    level: Level
    """Severity: fine; note: worth knowing; stop: no sweep can run."""
    part: str
    """Subject of the check: versions, machine, storage and others."""
    line: str
    """Text of the finding; if its level is note or stop, the fix follows a semicolon."""


def try_check(part: str, check: Callable[[], str]) -> list[Finding]:
    """Returns the line of a check as a `fine` finding, or a `stop` finding for each mistake that the check raises."""
    try:
        return [Finding("fine", part, check())]
    except (ConfigError, LedgerError) as error:
        lines = getattr(error, "problems", None) or str(error).splitlines()
        return [Finding("stop", part, line) for line in lines]


def versions() -> dict[str, str]:
    """Returns package -> version in this process; "" for a package that is not installed."""
    return {"python": platform.python_version(), **{name: find_version(name) for name in COMPARED_PACKAGES}}


def check_versions() -> str:
    """Returns a line on the versions of packages and code. Raises ConfigError for a package that is not installed."""
    installed = versions()
    absent = [name for name, version in installed.items() if not version]
    if absent:
        raise ConfigError(
            [f"not installed: package={name}; pip install --constraint constraints.txt {name}" for name in absent]
        )
    versions_text = ", ".join(f"{name} {version}" for name, version in installed.items())
    return f"{versions_text}; code {code_digest()} in {package_folder('cluster').parent}"


def check_machine(options: SweepOptions) -> str:
    """Returns a line on this machine and the runs that fit it. Raises ConfigError if not a single run fits."""
    node = this_machine()
    check_cards(options, local_kinds(options))
    fit = slots_that_fit(options, [node])
    return f"{node}; {tell_fit(fit, options)}, about {group_memory_gb(options):.1f} GB each"


def tell_fit(fit: int, options: SweepOptions) -> str:
    """Returns how many runs fit at once, in words."""
    verb = "fits" if fit == 1 else "fit"
    return f"{number_of(fit, 'run')} {verb} at once ({number_of(options.workers, 'worker')} each)"


def gpus(per_worker: float) -> list[Finding]:
    """Checks that torch can use this machine's GPUs; failure is a `stop` finding if ranks ask for GPUs
    (`per_worker`)."""
    number = int(this_machine().gpus)
    if not number:
        return []
    import torch

    if torch.cuda.is_available():
        return [Finding("fine", "GPUs", f"{number} x {torch.cuda.get_device_name(0)}")]
    line = f"GPUs that torch cannot use: gpus={number} torch={torch.__version__}"
    return [Finding("stop" if per_worker else "note", "GPUs", f"{line}; install a torch with CUDA for this driver")]


def check_storage(folder: Path) -> str:
    """Returns a line on the folder of runs. Raises ConfigError if it cannot be written, or its disk is almost full."""
    check_here(folder)
    free = shutil.disk_usage(folder).free / _GB
    if free < DISK_GB:
        line = f"disk about full: storage={folder} has {free:.1f} GB free"
        raise ConfigError([f"{line}; free some (cse clean), or give another --storage"])
    return f"{folder} can be written, {free:.0f} GB free"


def ray_disk(folder: Path) -> list[Finding]:
    """Returns a `note` finding if the disk with Ray's own files is too full for Ray."""
    disk = shutil.disk_usage(_find_existing(folder))
    used = 1 - disk.free / disk.total
    if used < RAY_FULL:
        return []
    return [Finding("note", "storage", f"disk about full: {folder} is on a disk that is {used:.0%} full; free some")]


def check_ledger(url: str) -> str:
    """Returns a line on the ledger; one that does not exist yet is fine.

    Raises LedgerError for SQLite on a network file system, an unknown schema, edited rows, or a database that does not
    answer.
    """
    parsed = parse_url(url)
    masked, file = mask_password(parsed), Path(str(parsed.database))
    if parsed.get_backend_name() == "sqlite" and not file.exists() and not network_file_system(file):
        return f"{masked} is not there yet; the first sweep makes it"
    with contextlib.closing(Ledger.open(url, create=False)) as ledger:
        ledger.require_sound()
        if edited := ledger.find_edited():
            signature, best, greatest = edited[0]
            line = f"edited row: run={signature} has best={best}, and its curve {greatest} (1 of {len(edited)})"
            raise LedgerError(f"{line}; cse doctor --repair --yes restores it")
        return f"{masked} can be read and written; sweeps: {len(ledger.sweeps())}"


def check_token() -> str:
    """Returns a line on Ray's token. Raises ConfigError if token authentication is off, or no token can be stored."""
    require_token()
    variable = next((name for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH") if name in os.environ), None)
    if variable:
        return f"{variable} is set"
    file = Path.home() / ".ray" / "auth_token"
    if not os.access(_find_existing(file.parent), os.W_OK | os.X_OK) or not _find_existing(file.parent).is_dir():
        line = f"no home: HOME={file.parents[1]} cannot hold Ray's token, {file}"
        raise ConfigError([f"{line}; set HOME to a folder of yours that can be written"])
    return f"{file} is there" if file.exists() else f"none yet; the first sweep makes {file}"


def data(paths: DataPaths, *, alone: bool = True) -> list[Finding]:
    """Lists the inputs that are given; a `note` finding if there are none and no space was given either (`alone`)."""
    kinds = ("wiki", "documents", "nli", "pairs", "train_file", "senteval")
    inputs = {name: path for name in kinds if (path := getattr(paths, name))}
    if alone and not inputs:
        line = "no data given: only generated text and your own can be trained on; give --data DIR, or cse data get sts"
        return [Finding("note", "data", line)]
    return [Finding("fine", "data", f"{name} {path}") for name, path in inputs.items()]


def needs(resolved: ResolvedSpace, seeds: Sequence[int], paths: DataPaths, workers: int) -> list[Finding]:
    """Checks the inputs of a space: a `stop` finding if every cell lacks one, a `note` for each that some
    cells lack."""
    try:
        plan = plan_all([(resolved, tuple(seeds))], None, paths, workers=workers)
    except ConfigError as error:
        return [Finding("stop", "space", line) for line in error.problems]
    lines = [
        *group_by_reason(plan.spaces[0].incomplete),
        *(f"not scored: {k}: {reason}" for k, reason in plan.unscorable.items()),
    ]
    cells = f"{resolved.space.id}: every cell has its inputs"
    return [Finding("note", "space", line) for line in lines] or [Finding("fine", "space", cells)]


@dataclass(frozen=True)
class NodeFacts:
    """Host name, package versions and code of one node."""

    host: str
    versions: Mapping[str, str]
    digest: str
    """Digest of the files of cse-search's packages, by `cluster.runtime.code_version.code_digest`."""


def node_facts() -> NodeFacts:
    """Returns the facts of the machine on which it is called."""
    return NodeFacts(platform.node(), versions(), code_digest())


def check_cluster(options: SweepOptions, inputs: Sequence[Path]) -> list[Finding]:
    """Joins the cluster at `options.address` and checks every node; one `stop` finding if it cannot be joined.

    Checked are room for runs, code, versions, storage and data.
    """
    assert options.address is not None

    def check_room() -> str:
        check_cards(options, cards_of(nodes))
        fit = slots_that_fit(options, nodes)
        return f"{tell_fit(fit, options)}, limited by {limit(options, nodes)}"

    def check_shared_files() -> str:
        check_nodes(options.storage, inputs)
        return f"every node reads and writes {options.storage} and has the data given"

    try:
        with tempfile.TemporaryDirectory() as folder, ray_cluster(Path(folder), address=options.address):
            nodes = cluster_nodes()
            findings = [Finding("fine", "cluster", f"joined at {options.address}")]
            findings += [Finding("fine", "node", str(node)) for node in nodes]
            findings += try_check("cluster", check_room)
            findings += compare_nodes(node_facts(), run_on_nodes(other_nodes(), node_facts))
            findings += try_check("storage", check_shared_files) if options.storage.is_dir() else []
            return list(dict.fromkeys(findings))
    except ConfigError as error:
        return [Finding("stop", "cluster", line) for line in error.problems]


def compare_nodes(local: NodeFacts, remote: Mapping[str, NodeFacts | str]) -> list[Finding]:
    """Compares nodes: a `stop` finding for other code or no answer, a `note` for each package of another version."""
    findings = []
    for node, answer in remote.items():
        if isinstance(answer, str):
            findings.append(Finding("stop", "node", report_silence(node, answer)))
            continue
        differing = []
        if answer.digest != local.digest:
            line = f"different code: node={node} digest={answer.digest}, here {local.digest}"
            differing.append(Finding("stop", "node", f"{line}; install the same cse-search there"))
        for name, version in local.versions.items():
            other = answer.versions.get(name) or "none"
            if other != version:
                line = f"different version: node={node} {name}={other}, here {version}"
                differing.append(Finding("note", "node", f"{line}; install {name} {version} there"))
        findings += differing or [Finding("fine", "node", f"{node} has this code and these versions")]
    return findings


def _find_existing(folder: Path) -> Path:
    return folder if folder.exists() or folder == folder.parent else _find_existing(folder.parent)
