"""Running a function on every other node of a joined cluster, each by a task there."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

ANSWER_S = 120.0
"""Seconds within which every node must answer."""
T = TypeVar("T")


def other_nodes() -> dict[str, str]:
    """Node id -> name of the alive nodes but the one that this process runs on."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    return {node["NodeID"]: f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})" for node in others}


def run_on_nodes(nodes: Mapping[str, str], function: Callable[..., T], *args: Any) -> dict[str, T | str]:
    """Node's name -> what `function(*args)` returns there, or in one line why it does not answer."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    tasks = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        remote = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(function)
        tasks[node] = remote.remote(*args)
    ray.wait(list(tasks.values()), num_returns=len(tasks), timeout=ANSWER_S)
    return {nodes[node]: _answer(reference) for node, reference in tasks.items()}


def report_silence(node: str, reason: str) -> str:
    """The problem of a node that did not answer."""
    return f"node without our code: node={node} ({reason}); install the same cse-search and Python there"


def _answer(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference, timeout=1)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1][:200] if lines else type(error).__name__
