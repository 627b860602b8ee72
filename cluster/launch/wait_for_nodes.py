"""`python -m cluster.launch.wait_for_nodes ADDRESS NODES` returns once that many nodes have joined, or fails."""

import sys
import time

from cluster.runtime.join import listens

NODES_TIMEOUT_SECONDS = 300.0


def wait(address: str, nodes: int, limit_s: float = NODES_TIMEOUT_SECONDS) -> str | None:
    """Waits until `nodes` nodes of the Ray cluster at HOST:PORT live; returns None, or what is missing."""
    end = time.monotonic() + limit_s
    host, _, port = address.rpartition(":")
    while not listens(host, int(port)):
        if time.monotonic() > end:
            return f"no Ray cluster: address={address} after {limit_s:.0f} s; read the head's log"
        time.sleep(0.5)
    if nodes == 1:
        return None
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        while (alive := sum(node["Alive"] for node in ray.nodes())) < nodes:
            if time.monotonic() > end:
                return f"nodes missing: joined={alive} of {nodes}; read the logs of the others beside the storage"
            time.sleep(0.5)
    finally:
        ray.shutdown()
    return None


if __name__ == "__main__":
    problem = wait(sys.argv[1], int(sys.argv[2]))
    sys.exit(problem and f"cse: {problem}")
