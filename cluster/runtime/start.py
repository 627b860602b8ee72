"""Starting and ending Ray for our drivers, quietly, with what slots and ranks need in their environment."""

import contextlib
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.runtime import processes, ray_internals
from cluster.runtime.background import interrupts_held
from cluster.runtime.cards import is_wsl
from cluster.runtime.code_version import package_parents
from cluster.runtime.join import check_address, connect
from cluster.runtime.resources import SLOT
from cluster.runtime.security import keep_token_private, require_token

TRIAL_SLOTS = 1024
OBJECT_STORE_BYTES = 256 * 1024**2
"""Messages between slots and ranks are small; models never pass through the object store."""

HEALTH_CHECK_MS = 120_000
"""Time that our own node has to answer Ray's head. Ray's 10 s, missed five times, declare the only node of a starved
machine dead; one that was killed refuses at once and is still noticed within 15 s."""

WORKER_ENVIRONMENT = {
    **ray_internals.RANK_VARIABLES,
    "TOKENIZERS_PARALLELISM": "false",
    # oneDNN keeps 1024 compiled shapes by default, which length groups fill with 0.2 GB and no gain in speed.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
}
LOUDEST = {
    "ray": logging.ERROR,
    "ray.tune": logging.ERROR,
    "ray.train": logging.ERROR,
    # Tune's own state, which nothing of ours reads: the run that meets a full disk reports it in one line.
    ray_internals.STATE_LOGGER: logging.CRITICAL,
}
"""Ray's loggers -> the least level that is shown."""
PASSED_ON = re.compile(
    r"HF_HUB_OFFLINE|HF_HOME|CSE_CACHE|CUBLAS_WORKSPACE_CONFIG|(TORCH_)?NCCL_\w+|GLOO_SOCKET_IFNAME|"
    r"PYTORCH_(CUDA_|HIP_)?ALLOC_CONF"
)
"""Variables of the driver's that ranks get, also those of a cluster that was joined."""
ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
"""Torch's pieces of a card's memory grow, which leaves fewer gaps: lengths of batches differ. Under WSL2 the first
allocation so may fail (https://github.com/pytorch/pytorch/issues/192330)."""


class RayNotStarted(RuntimeError):
    """A Ray of our own did not come up, twice: a machine with nothing to spare for it, most often."""


@contextlib.contextmanager
def ray_cluster(
    folder: Path, *, address: str | None = None, num_cpus: int | None = None, memory_gb: float | None = None
) -> Iterator[None]:
    """Ray while inside, started here unless `address` names a cluster or this process has one already.

    A Ray that is started here offers `num_cpus` and `memory_gb`, else what the machine has. The process works from
    `folder` (made if absent) meanwhile: Ray puts the driver's folder first on the workers' path, where a folder of the
    user's named `analysis` would hide ours.
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
                with interrupts_held(), sigterm_kept():
                    start_ray(address=address, num_cpus=num_cpus, memory_gb=memory_gb)
                yield
        finally:
            with interrupts_held():
                folders = _dashboard_folders() if address is None else set()
                ray.shutdown()
                _take_sigterm()
                processes.remove(folders)


def _dashboard_folders() -> set[Path]:
    """What the dashboard that was started here will leave among the temporary files."""
    session = ray_internals.session_folder()
    return processes.dashboard_folders(session) if session else set()


def start_ray(*, address: str | None = None, num_cpus: int | None = None, memory_gb: float | None = None) -> None:
    """`ray.init` for our drivers; without `address` always a cluster of its own, never one that happens to run here."""
    import ray

    environment = worker_environment()
    shared: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
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
                raise RayNotStarted(_why_not(error)) from error


def worker_environment() -> dict[str, str]:
    """What slots and ranks have in theirs; how torch allocates is the user's where a variable of the driver says it."""
    passed = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    chosen = is_wsl() or any(name.endswith("ALLOC_CONF") for name in passed)
    return WORKER_ENVIRONMENT | ({} if chosen else ALLOCATOR) | passed


def _why_not(error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    return f"Ray did not start: {load} ({reason}); when the machine has time and memory, give the same command again"


@contextlib.contextmanager
def sigterm_kept() -> Iterator[None]:
    """Our handler of SIGTERM stays, where there is one, and no other comes before it.

    Ray's one in Python would end the process at once, its start half done. Its one in C++ (abseil's failure handler)
    calls ours, but aborts the process three seconds later, whatever that is still saving.
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
    """Our handler gets SIGTERM again: Ray in C++ takes it when it starts, and leaves the system's when it ends."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)
        signal.alarm(0)  # for a signal that came before ours was back


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ray's messages go to its log files; what Tune and Train read from the environment is set meanwhile."""
    before = {name: os.environ.get(name) for name in ray_internals.DRIVER_VARIABLES}
    levels = {name: logging.getLogger(name).level for name in LOUDEST}
    os.environ.update(ray_internals.DRIVER_VARIABLES)
    for name, loudest in LOUDEST.items():
        logging.getLogger(name).setLevel(loudest)
    try:
        with ray_internals.silent():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
