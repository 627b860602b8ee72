"""Ray workers that are forks of one process, so that 256 of them fit into a small machine's memory.

A worker with Ray Tune imported holds 111 MB of its own; a fork shares what was imported before it. Ray starts this file
in the place of its own `setup_worker.py`, and it hands the worker's command line to the process that forks:

    python -m benchmarks.driver.forked_worker
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

SOCKET = "CSE_FORK_SOCKET"
"""The variable that names the socket of the process that forks."""
LONGEST = 1 << 20
"""Bytes of a command line with its environment."""
PRELOADED = ("ray.tune", "ray._private.workers.default_worker", "cluster.slots.slot", "benchmarks.driver.sleeping")


def serve() -> NoReturn:
    """Passes each command line that arrives to the forking process of its Ray job; runs for ever."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.environ[SOCKET])
    server.listen(512)
    forkers: dict[str, socket.socket] = {}
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as text:
            asked = text.read()
        environment = json.loads(asked)["environment"]
        job = environment["RAY_JOB_ID"]
        if job not in forkers:
            forkers[job] = start_forker(environment)
        forkers[job].send(asked)


def start_forker(environment: dict[str, str]) -> socket.socket:
    """Returns a socket to a new process that forks one job's workers: Ray's C++ reads the job once, at import."""
    import gc
    import importlib
    import signal

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    os.environ.update(environment)
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while asked := theirs.recv(LONGEST):
        if os.fork() == 0:
            theirs.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(**json.loads(asked))
    os._exit(0)


def become(words: list[str], environment: dict[str, str], folder: str) -> NoReturn:
    """Turns this fork into a Ray worker, as Ray's own setup_worker.py does, without starting a new Python."""
    import argparse
    import runpy

    parser = argparse.ArgumentParser()
    parser.add_argument("--serialized-runtime-env-context", default="{}")
    parser.add_argument("--language")
    given, (program, *rest) = parser.parse_known_args(words)
    context: dict[str, Any] = json.loads(given.serialized_runtime_env_context)
    os.environ.clear()
    os.environ.update(environment | context.get("env_vars", {}))
    os.chdir(folder)
    os.setsid()
    sys.argv = [program, *rest]
    runpy.run_path(program, run_name="__main__")
    os._exit(0)


def ask() -> None:
    """Hands this process's command line and environment to the process that forks."""
    asked = {"words": sys.argv[1:], "environment": dict(os.environ), "folder": str(Path.cwd())}
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(os.environ[SOCKET])
        client.sendall(json.dumps(asked).encode())


if __name__ == "__main__":
    ask() if sys.argv[1:] else serve()
