"""Starts, watches and ends Ray for drivers, quietly, with the environment that slots and ranks need.

A one-machine cluster is kept behind a token that other users cannot read.
"""

import contextlib
import logging
import os
import platform
import re
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from cluster.runtime import processes, ray_internals
from cluster.runtime.background import background, interrupts_held
from cluster.runtime.code_version import package_parents
from cluster.runtime.join import check_address, connect
from cluster.runtime.ray_internals import HEAD_RESOURCE, LOG_FOLDER, session_folder
from cluster.runtime.resources import SLOT, is_wsl
from cse_train.fields import ConfigError

TRIAL_SLOTS = 1024
OBJECT_STORE_BYTES = 256 * 1024**2
"""Bytes of Ray's object store. Messages between slots and ranks are small; models never pass through it."""

HEALTH_CHECK_MS = 120_000
"""Milliseconds that a node of a cluster started here has to answer Ray's head.

Ray's own 10 s, missed five times, declares the only node of a starved machine dead. A killed node refuses at once and
is still noticed within 15 s.
"""

WORKER_ENVIRONMENT = {
    **ray_internals.RANK_VARIABLES,
    "TOKENIZERS_PARALLELISM": "false",
    # oneDNN keeps 1024 compiled shapes by default, which length groups fill with 0.2 GB and no gain in speed.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
}
LOG_LEVELS = {
    "ray": logging.ERROR,
    "ray.tune": logging.ERROR,
    "ray.train": logging.ERROR,
    # Tune's own state, which nothing of ours reads: the run that meets a full disk reports it in one line.
    ray_internals.STATE_LOGGER: logging.CRITICAL,
}
PASSED_VARIABLES = re.compile(
    r"HF_HUB_OFFLINE|HF_HOME|CSE_CACHE|CUBLAS_WORKSPACE_CONFIG|(TORCH_)?NCCL_\w+|GLOO_SOCKET_IFNAME|"
    r"PYTORCH_(CUDA_|HIP_)?ALLOC_CONF"
)
"""Pattern of the driver's environment variables that ranks receive, also on a cluster that was joined."""
ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
"""Default allocator settings of torch in ranks: segments of GPU memory grow, which leaves fewer gaps.

Batches differ in length, so fixed segments fragment. Under WSL2 the first allocation may fail with it
(https://github.com/pytorch/pytorch/issues/192330).
"""


class RayNotStarted(RuntimeError):
    """Raised when a local Ray cluster did not start in two tries, mostly for lack of free CPU time or memory."""


@contextlib.contextmanager
def ray_cluster(
    folder: Path, *, address: str | None = None, num_cpus: int | None = None, memory_gb: float | None = None
) -> Iterator[None]:
    """Context manager with Ray connected inside: an existing connection, the cluster at `address`, or one started here.

    A Ray started here offers `num_cpus` and `memory_gb`, else what the machine has. The process works from `folder`
    (made if absent) meanwhile: Ray puts the driver's folder first on the workers' path, where a user's own folder named
    `analysis` would hide this project's package.
    """
    import ray

    if address is not None:
        check_address(address)
    if ray.is_initialized():
        with quiet():
            yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        try:
            with quiet():
                with interrupts_held(), _sigterm_kept():
                    _start_ray(address=address, num_cpus=num_cpus, memory_gb=memory_gb)
                yield
        finally:
            with interrupts_held():
                session = ray_internals.session_folder() if address is None else None
                folders = processes.dashboard_folders(session) if session else set()
                ray.shutdown()
                _take_sigterm()
                processes.remove(folders)


def _start_ray(*, address: str | None = None, num_cpus: int | None = None, memory_gb: float | None = None) -> None:
    """Calls `ray.init` for a driver; without `address` always for a new cluster, never one that runs here already."""
    import ray

    environment = worker_environment()
    shared: dict[str, object] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        connect(address, runtime_env={"env_vars": environment}, **shared)
        return
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, package_parents()), *inherited])
    settings = {
        "address": "local",
        "num_cpus": num_cpus,
        "resources": {SLOT: TRIAL_SLOTS},
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": True,
        "runtime_env": {"env_vars": environment},
        **ray_internals.init_settings(memory_gb, HEALTH_CHECK_MS),
    }
    require_token()
    keep_token_private()
    with ray_internals.bind_loopback(), ray_internals.own_groups():
        try:
            ray.init(**settings, **shared)
        except Exception:
            # Two clusters that start at the same moment may pick the same port.
            ray.shutdown()
            try:
                ray.init(**settings, **shared)
            except Exception as error:
                ray.shutdown()
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
                line = f"Ray did not start: load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores ({reason})"
                line += "; when the machine has time and memory, give the same command again"
                raise RayNotStarted(line) from error


def worker_environment() -> dict[str, str]:
    """Returns the environment variables of slots and ranks; the driver's own allocator settings take precedence."""
    passed = {name: value for name, value in os.environ.items() if PASSED_VARIABLES.fullmatch(name)}
    chosen = is_wsl() or any(name.endswith("ALLOC_CONF") for name in passed)
    return WORKER_ENVIRONMENT | ({} if chosen else ALLOCATOR) | passed


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Context manager that keeps the program's SIGTERM handler while Ray starts; does nothing where there is none.

    Ray's Python handler would end the process at once, its start half done. Ray's C++ handler (abseil's failure
    handler) calls the program's own, but aborts the process three seconds later, even while it saves.
    """
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, signal.SIG_IGN, None):
        yield
        return
    try:
        with ray_internals.keep_sigterm():
            yield
    finally:
        _take_sigterm()


def _take_sigterm() -> None:
    """Installs the program's SIGTERM handler again, which Ray's C++ replaces at its start and resets at its end."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)
        signal.alarm(0)  # for a signal that came before ours was back


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Context manager in which Ray logs to its files alone and Tune's and Train's environment variables are set."""
    before = {name: os.environ.get(name) for name in ray_internals.DRIVER_VARIABLES}
    levels = {name: logging.getLogger(name).level for name in LOG_LEVELS}
    os.environ.update(ray_internals.DRIVER_VARIABLES)
    for name, loudest in LOG_LEVELS.items():
        logging.getLogger(name).setLevel(loudest)
    try:
        with ray_internals.silent():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


OWNER_ALONE = 0o600


def require_token() -> None:
    """Raises ConfigError where the environment turns Ray's token authentication off."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        line = f"no token: RAY_AUTH_MODE={mode}, and whoever reaches such a cluster runs code as you"
        raise ConfigError([f"{line}; unset RAY_AUTH_MODE, or join a cluster with --address"])


def keep_token_private(home: Path | None = None) -> None:
    """Creates Ray's token file if absent and makes it readable by its owner only; Ray makes it readable by everyone.

    Raises ConfigError where the home folder cannot hold the file. Does nothing where a variable gives the token.
    """
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        return
    path = (home or Path.home()) / ".ray" / "auth_token"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            # O_EXCL: of two drivers that start at once the second keeps the token of the first.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE)
            with open(descriptor, "w", encoding="utf8") as file:
                file.write(secrets.token_hex(32))
        if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o077:
            path.chmod(OWNER_ALONE)
    except OSError as error:
        line = f"no home: HOME={path.parents[1]} cannot hold Ray's token, {error.filename or path} ({error.strerror})"
        raise ConfigError([f"{line}; set HOME to a folder of yours that can be written"]) from error


HEAD_POLL_SECONDS = 5.0
HEAD_GRACE_SECONDS = 60.0
"""Seconds that a head may be missing before the cluster counts as lost; shorter absences are taken for slowness."""
LOGS_VARIABLE = "CSE_RAY_LOGS"
"""Environment variable with the folder to which a launcher (Slurm's job script) copies Ray's logs."""


class ClusterLost(RuntimeError):
    """Raised when the head node of the Ray cluster is dead, and with it every slot."""


@contextlib.contextmanager
def cluster_watch(over: threading.Event) -> Iterator[None]:
    """Polls for a living Ray head inside the block, and sets `over` after HEAD_GRACE_SECONDS without one.

    Leaving the block then raises ClusterLost, unless another exception is already on its way.
    """
    head_lost, logs = threading.Event(), logs_place()

    def watch(done: threading.Event) -> None:
        last_seen = time.monotonic()
        while not head_lost.is_set() and not done.wait(HEAD_POLL_SECONDS):
            if _head_lives():
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > HEAD_GRACE_SECONDS:
                head_lost.set()
                over.set()

    with background(watch):
        yield
    if head_lost.is_set():
        line = f"cluster lost: its head node does not live any more; Ray's logs: {logs}"
        raise ClusterLost(f"{line}; runs are given back, the same command continues")


def logs_place() -> str:
    """Returns HOST:FOLDER of this process's Ray logs, after the folder of their copies if any; empty without Ray."""
    folder = session_folder()
    if folder is None:
        return ""
    place, copies = f"{platform.node()}:{folder / LOG_FOLDER}", os.environ.get(LOGS_VARIABLE)
    return f"{copies}, else {place}" if copies else place


def _head_lives() -> bool:
    import ray

    try:
        nodes = ray.nodes() if ray.is_initialized() else []
        return any(node["Alive"] and HEAD_RESOURCE in node["Resources"] for node in nodes)
    except Exception:  # a Ray that does not answer is as good as none
        return False
