"""Every use of Ray's private API in this project; no other module uses Ray's private names.

PRIVATE and READ list the uses with their reasons. pyproject.toml allows no release of Ray in which they were not
verified, and a test looks each up by name in the installed one.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ISSUES = "https://github.com/ray-project/ray/issues"
PRIVATE: Mapping[str, str] = {
    "ray._private.utils.set_sigterm_handler": f"ray.init takes SIGTERM from its program: {ISSUES}/17745",
    "ray._private.worker.print_to_stdstream": f"events of the autoscaler are printed whatever is asked: {ISSUES}/19636",
    "ray._private.ray_constants.ENABLE_RAY_CLUSTER": f"nothing else puts a head on 127.0.0.1: {ISSUES}/26293",
    "ray._private.services.ConsolePopen": "Ray's processes are of its program's group, whose signals end them first",
    "ray._private.services.get_node_ip_address": f"what Ray puts in the place of 127.0.0.1: {ISSUES}/26293",
    "ray._private.auto_init_hook.enable_auto_connect": f"any call may start a Ray of its own: {ISSUES}/31060",
    "ray._private.worker.global_worker": "where the session's files and the dashboard are has no public name",
    "ray.train.v2._internal.execution.callback.ControllerCallback": f"see `LeftoverRoom`: {ISSUES}/58515",
    "ray.train.v2._internal.execution.callback.WorkerGroupCallback": f"see `LeftoverRoom`: {ISSUES}/58515",
    "ray.train.v2._internal.execution.callback.WorkerCallback": "see `SavesFirst`: the rank's main thread",
    "ray.train.v2._internal.exceptions.WorkerGroupStartupTimeoutError": "NO_ROOM: told apart from other failures",
    "ray.tune.tune._setup_signal_catching": "Tune takes SIGUSR1, Slurm's signal before a time limit, whatever is asked",
    "ray.tune.execution.tune_controller.TuneController._get_trial_checkpoints": "see `keep_no_trials`",
    "ray.tune.registry._internal_kv_get": "see `keep_no_trials`",
    "ray.job_submission.JobSubmissionClient": "its _server_ray_version, which no call gives",
}
"""Dotted name of a private object of Ray's -> why it is used."""

CALLBACKS = "RAY_TRAIN_CALLBACKS"
"""Environment variable from which Ray Train reads further callbacks."""
NO_ROOM = "WorkerGroupStartupTimeoutError"
"""Name of the exception that Ray Train raises after waiting a minute for a worker group's resources."""
HEAD_RESOURCE = "node:__internal_head__"
"""Ray resource that only the head node of a cluster has."""
STATE_LOGGER = "ray.tune.execution.experiment_state"
"""Logger that warns when Tune cannot write its own state."""
RANK_VARIABLES: Mapping[str, str] = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.25",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "5",
    # Else Ray leaves every GPU visible to a rank that was given none, and it would train there.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
"""Environment variables that Ray and Ray Train read in the processes of slots and ranks."""
DRIVER_VARIABLES: Mapping[str, str] = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "600",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
}
"""Environment variables that Ray Tune and Ray Train read in a driver."""
LOG_FOLDER = "logs"
"""Name of the log folder in a Ray session's folder on each node."""
DISCOVERY_FILE = "prom_metrics_service_discovery.json"
"""Prometheus service-discovery file in the session's folder on the head; it lists the cluster's metric endpoints."""
READ: Mapping[str, str] = {
    CALLBACKS: "ray.train.v2._internal.constants",
    DISCOVERY_FILE: "ray._private.ray_constants",
    "__internal_head__": "ray._common.constants",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "ray.train.v2._internal.constants",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "ray.train.constants",
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "ray.train.constants",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "ray._private.accelerators.accelerator",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "ray.tune.constants",
    "TUNE_GLOBAL_CHECKPOINT_S": "ray.tune.constants",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "ray.tune.constants",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "ray.tune.constants",
    "RAY_AIR_NEW_OUTPUT": "ray.tune.experimental.output",
    "getLogger(__name__)": STATE_LOGGER,
    '"_memory"': "ray._private.worker",
    '"_system_config"': "ray._private.worker",
    "self._server_ray_version": "ray.dashboard.modules.dashboard_sdk",
    "placement_group_handle: ": "ray.train.v2._internal.execution.worker_group.state",
    "def before_controller_shutdown": "ray.train.v2._internal.execution.callback",
    "def after_worker_group_start": "ray.train.v2._internal.execution.callback",
    "def after_init_train_context": "ray.train.v2._internal.execution.callback",
}
"""Text -> the module of Ray's whose source must contain it: variables, settings and attributes that Ray reads."""


def __getattr__(name: str) -> Any:
    """Imports Ray Train's callback classes on first access: the import takes seconds, and a driver needs them late."""
    if name in ("ControllerCallback", "WorkerGroupCallback", "WorkerCallback"):
        from ray.train.v2._internal.execution import callback

        return getattr(callback, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def _set(module: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def init_settings(memory_gb: float | None, health_check_ms: int) -> dict[str, object]:
    """Returns private settings of `ray.init`; `memory_gb` None offers the RAM that Ray detects."""
    memory = None if memory_gb is None else int(memory_gb * 1024**3)
    return {"_memory": memory, "_system_config": {"health_check_timeout_ms": health_check_ms}}


def keep_sigterm() -> contextlib.AbstractContextManager[None]:
    """Context manager in which `ray.init` leaves the program's SIGTERM handler in place."""
    from ray._private import utils

    return _set(utils, "set_sigterm_handler", lambda handler: None)


def keep_signals() -> contextlib.AbstractContextManager[None]:
    """Context manager in which Ray Tune leaves SIGINT and SIGUSR1 to the program."""
    from ray.tune import tune

    return _set(tune, "_setup_signal_catching", threading.Event)


@contextlib.contextmanager
def keep_no_trials() -> Iterator[None]:
    """Context manager in which Tune saves no trial state and asks Ray's head for the trainable's class only once.

    Nobody restores Tune's state, and saving it costs the driver a minute at the end of some thousand trials. Tune asks
    for the class three times per trial otherwise.
    """
    from ray.tune import registry
    from ray.tune.execution.tune_controller import TuneController

    ask, classes = registry._internal_kv_get, dict[bytes, bytes]()

    def get(key: bytes) -> bytes | None:
        value = classes.get(key) or ask(key)
        if value is not None:
            classes[key] = value
        return value

    with _set(TuneController, "_get_trial_checkpoints", lambda controller: {}), _set(registry, "_internal_kv_get", get):
        yield


def silent() -> contextlib.AbstractContextManager[None]:
    """Context manager in which Ray prints nothing of its workers and its autoscaler."""
    from ray._private import worker

    return _set(worker, "print_to_stdstream", lambda *args, **kwargs: None)


def bind_loopback() -> contextlib.AbstractContextManager[None]:
    """Context manager in which `ray.init` binds every port of its processes to 127.0.0.1.

    Ray binds so where it expects no second node, which on Linux only this private constant controls
    (`get_node_ip_address` in _private/services.py); it replaces an explicit 127.0.0.1 by the machine's own address.
    """
    from ray._private import ray_constants

    return _set(ray_constants, "ENABLE_RAY_CLUSTER", False)


def own_groups() -> contextlib.AbstractContextManager[None]:
    """Context manager in which `ray.init` puts each process that it starts into a process group of its own.

    A signal to the driver's group, as from `timeout`, Ctrl-C or a closed terminal, then reaches only the driver, which
    needs its Ray processes for an orderly end.
    """
    from ray._private import services

    return _set(services, "ConsolePopen", functools.partial(services.ConsolePopen, process_group=0))


def own_address() -> str:
    """Returns the address by which Ray replaces 127.0.0.1."""
    from ray._private.services import get_node_ip_address

    return str(get_node_ip_address())


def start_no_other() -> None:
    """Turns off Ray's automatic start: later calls that need Ray fail where Ray is not initialised."""
    from ray._private import auto_init_hook

    auto_init_hook.enable_auto_connect = False


def session_folder() -> Path | None:
    """Returns the session folder of this process's Ray; None without Ray."""
    folder = _address_info().get("session_dir")
    return Path(str(folder)) if folder else None


def session_name() -> str:
    """Returns the name of this process's Ray session, equal on all nodes of a cluster and unique; empty without Ray."""
    folder = session_folder()
    return folder.name if folder else ""


def discovery_file() -> Path | None:
    """Returns Prometheus' service-discovery file of this process's Ray; None where this node is not the head."""
    folder = session_folder()
    return file if folder and (file := folder / DISCOVERY_FILE).is_file() else None


def dashboard() -> str | None:
    """Returns HOST:PORT of this process's Ray dashboard; None without Ray or without a dashboard."""
    address = _address_info().get("webui_url")
    return str(address) if address else None


def _address_info() -> Mapping[str, object]:
    import ray
    from ray._private import worker

    node = worker.global_worker.node if ray.is_initialized() else None
    return node.address_info if node else {}


def version_of(client: Any) -> str:
    """Returns the Ray version of the cluster to which a `JobSubmissionClient` is connected."""
    return str(client._server_ray_version)
