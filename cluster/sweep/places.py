"""How many slots a cluster holds, where they live, and how that follows nodes that join and leave."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.runtime.cards import KIND, PART_OF_KIND
from cluster.runtime.options import SweepOptions
from cluster.runtime.ray_internals import HEAD_RESOURCE
from cluster.runtime.resources import (
    GROUP_GB,
    SLOT,
    WORKER_GB,
    Node,
    cluster_nodes,
    fit_on_head,
    limit,
    memory_bytes,
    slots_that_fit_or_0,
)

FOLLOW_S = 3.0
"""Seconds between two looks at the cluster's nodes."""
ARRIVE_S = 2.0
"""The same while a cluster has none that trains."""


def slot_bundle(options: SweepOptions, slots: int) -> dict[str, float]:
    """What a slot itself takes: a place on the head where all fit there, so that a lost node costs a slot its ranks and
    never itself; else on any node, from which Tune moves it when that is lost.

    No CPU, however little: a full node must still hold its workers.
    """
    nodes = cluster_nodes()
    bundle: dict[str, float] = {"memory": memory_bytes(GROUP_GB)}
    if any(node.head for node in nodes) and (
        fit_on_head(options, nodes, slots) or not any(node.slots for node in nodes)
    ):
        bundle[HEAD_RESOURCE] = 0.001
        return bundle | ({SLOT: 1} if any(node.head and node.slots for node in nodes) else {})
    return bundle | ({SLOT: 1} if any(node.slots for node in nodes) else {})


def describe_places(options: SweepOptions, slots: int, nodes: Sequence[Node]) -> str:
    """The shape of the sweep on these nodes, and what keeps it from being wider."""
    shape = f"{slots} x {options.workers} workers, isolation {options.isolation}"
    return f"{shape}, limited by {limit(options, nodes)}"


def has_room(options: SweepOptions) -> bool:
    """Whether what nobody holds in the cluster now, all nodes together, is enough for a run."""
    import ray

    free = ray.available_resources()
    memory_gb = free.get("memory", 0) / memory_bytes(1)
    room = Node(cpus=free.get("CPU", 0), gpus=free.get("GPU", 0), memory_gb=memory_gb, head=True)
    return slots_that_fit_or_0(replace(options, max_concurrent=None, accelerator_type=None), [room]) > 0


def follow_nodes(options: SweepOptions, slots: int, resize: Callable[[int, str], None], done: threading.Event) -> None:
    """Until `done`: tell `resize` how many slots fit, and the shape in words, when nodes have come or gone.

    For a thread. With no room at all, the slots that there are wait for nodes (`wait_for_nodes_s`).
    """
    before, on_head = slots, HEAD_RESOURCE in slot_bundle(options, slots)
    while not done.wait(FOLLOW_S):
        with contextlib.suppress(Exception):  # Ray ends with the sweep, while this thread still asks
            nodes = cluster_nodes()
            fit = slots_that_fit_or_0(options, nodes)
            if on_head:
                fit = min(fit, int(next(node.memory_gb for node in nodes if node.head) / GROUP_GB))
            if fit and fit != before:
                resize(fit, describe_places(options, fit, nodes))
                before = fit


def wait_for_nodes(options: SweepOptions, over: threading.Event, report: Callable[[str], None]) -> None:
    """Where the joined cluster has no node that trains, as one that scales from zero: ask for some, and wait for one.

    Returns after `wait_for_nodes_s` at the latest, or when `over` is set; `report` gets a line when a wait begins.
    """
    until = time.monotonic() + options.wait_for_nodes_s
    waits = False
    while not any(node.cpus for node in cluster_nodes()) and time.monotonic() < until and not over.is_set():
        if not waits:
            report(f"no node trains yet; asks for some and waits {options.wait_for_nodes_s / 60:.0f} min for them")
            _ask_for_nodes(options)
        waits = True
        over.wait(ARRIVE_S)


def _ask_for_nodes(options: SweepOptions) -> None:
    """Of an autoscaler, where the cluster has one."""
    from ray.autoscaler.sdk import request_resources

    rank: dict[str, float] = {"CPU": max(1, round(options.cpus_per_worker)), "memory": memory_bytes(WORKER_GB)}
    if options.gpus_per_worker:
        rank["GPU"] = max(1, round(options.gpus_per_worker))
    if options.accelerator_type:
        rank[f"{KIND}{options.accelerator_type}"] = PART_OF_KIND
    request_resources(bundles=[rank] * options.workers * (options.max_concurrent or 1))
