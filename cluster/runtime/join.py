"""Joins a running Ray cluster, with each failure as one line for the user, and runs functions and actors on nodes."""

import contextlib
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cluster.runtime import ray_internals
from cse_train.fields import ConfigError

CONNECT_TIMEOUT_SECONDS = 5.0
"""Seconds within which a head must accept a TCP connection; Ray itself would try for minutes."""
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")
AUTOMATIC = ("auto", "local")
LOOPBACK = ("127.0.0.1", "localhost")
ANSWER_TIMEOUT_SECONDS = 120.0
"""Seconds within which every node must return the result of a task."""
T = TypeVar("T")


def connect(address: str, **settings: Any) -> None:
    """Calls `ray.init` for the cluster at `address` (HOST:PORT or auto); raises a one-line ConfigError on failure."""
    import ray

    check_address(address)
    try:
        # This machine's other addresses may not lead there, as with a cluster of ours: Ray would try those.
        host, _, port = address.rpartition(":")
        alone = host in LOOPBACK and not listens(ray_internals.own_address(), int(port))
        with ray_internals.bind_loopback() if alone else contextlib.nullcontext():
            ray.init(address=address, **settings)
    except Exception as error:
        ray.shutdown()
        raise ConfigError([problem(address, error)]) from error


def listens(host: str, port: int) -> bool:
    """Tells whether HOST:PORT accepts a TCP connection within `CONNECT_TIMEOUT_SECONDS`."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True


def check_address(address: str) -> None:
    """Raises ConfigError unless something listens at HOST:PORT; accepts `auto` and `local` unchecked."""
    if address in AUTOMATIC:
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise ConfigError([f"wrong address: address={address}; give HOST:PORT of the head, such as 10.0.0.1:6379"])
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        line = f"no Ray cluster: address={address} ({reason})"
        raise ConfigError([f"{line}; start one there (ray start --head) or give its HOST:PORT"]) from error


def problem(address: str, error: BaseException) -> str:
    """Returns a failure of `ray.init` as one line that says what to do."""
    text = str(error)
    versions = VERSIONS.findall(text)
    if len(versions) == 2:
        (cluster_ray, cluster_python), (local_ray, local_python) = versions
        return (
            f"different versions: ray={local_ray} python={local_python} here, "
            f"ray={cluster_ray} python={cluster_python} at {address}; "
            f"install Ray {cluster_ray} here (pip install ray=={cluster_ray}) under Python {cluster_python}, "
            "or start the cluster with this environment"
        )
    if type(error).__name__ == "AuthenticationError" or "authenticat" in text.lower():
        return f"token refused: address={address}; set RAY_AUTH_TOKEN to the cluster's (~/.ray/auth_token on its head)"
    if "Failed to connect to Ray cluster" in text:
        return (
            f"no answer: address={address} is open, but no Ray head lets this one in; set RAY_AUTH_TOKEN to the "
            "cluster's (~/.ray/auth_token on its head), or give the HOST:PORT of a head"
        )
    first = (text.strip().splitlines() or [type(error).__name__])[0][:200]
    return f"no Ray cluster: address={address}: {first}; start one (ray start --head) or give its HOST:PORT"


def other_nodes() -> dict[str, str]:
    """Returns node ID -> name of the living nodes other than this process's own."""
    import ray

    own_id = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != own_id]
    return {node["NodeID"]: f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})" for node in others}


def start_here(kind: type, *args: Any, **options: Any) -> Any:
    """Starts an actor on this node, which takes no CPU and ends with the process that started it."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=this_node, **options)(kind).remote(*args)


def run_on_nodes(nodes: Mapping[str, str], function: Callable[..., T], *args: Any) -> dict[str, T | str]:
    """Runs `function(*args)` on each node; returns node name -> result, or one line that says why there is none.

    `nodes`: Ray node ID -> name. Tasks take no CPU and are not retried; the wait is `ANSWER_TIMEOUT_SECONDS` at most.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    tasks = {}
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        remote = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(function)
        tasks[node] = remote.remote(*args)
    ray.wait(list(tasks.values()), num_returns=len(tasks), timeout=ANSWER_TIMEOUT_SECONDS)
    return {nodes[node]: _answer(reference) for node, reference in tasks.items()}


def report_silence(node: str, reason: str) -> str:
    return f"node without our code: node={node} ({reason}); install the same cse-search and Python there"


def _answer(reference: Any) -> Any:
    import ray

    try:
        # `ray.wait` has waited already: a task that is not ready by now raises GetTimeoutError.
        return ray.get(reference, timeout=1)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1][:200] if lines else type(error).__name__
