"""Joining a Ray cluster that runs: what can be wrong with its address, its token or its version, in one line."""

import contextlib
import re
import socket
from typing import Any

from cluster.runtime import ray_internals
from cse_train.fields import ConfigError

REACH_S = 5.0
"""Seconds that a head has to accept a connection; Ray itself would try for minutes."""
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")
AUTOMATIC = ("auto", "local")
LOOPBACK = ("127.0.0.1", "localhost")


def connect(address: str, **settings: Any) -> None:
    """`ray.init` to the cluster at `address` (HOST:PORT or auto); ConfigError in one line where that cannot be."""
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
    """Whether something there accepts a connection within `REACH_S`."""
    try:
        socket.create_connection((host, port), timeout=REACH_S).close()
    except OSError:
        return False
    return True


def check_address(address: str) -> None:
    """ConfigError unless something listens at HOST:PORT."""
    if address in AUTOMATIC:
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise ConfigError([f"wrong address: address={address}; give HOST:PORT of the head, such as 10.0.0.1:6379"])
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        line = f"no Ray cluster: address={address} ({reason})"
        raise ConfigError([f"{line}; start one there (ray start --head) or give its HOST:PORT"]) from error


def problem(address: str, error: BaseException) -> str:
    """What `ray.init` raised, as one line with what to do."""
    text = str(error)
    versions = VERSIONS.findall(text)
    if len(versions) == 2:
        (there, python_there), (here, python_here) = versions
        return (
            f"different versions: ray={here} python={python_here} here, ray={there} python={python_there} at "
            f"{address}; install Ray {there} here (pip install ray=={there}) under Python {python_there}, "
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
