"""Places slots in a cluster and follows nodes that join and leave it."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.runtime.options import SweepOptions
from cluster.runtime.ray_internals import HEAD_RESOURCE
from cluster.runtime.resources import (
    GROUP_GB,
    KIND_PREFIX,
    PART_OF_KIND,
    SLOT,
    WORKER_GB,
    Node,
    cluster_nodes,
    fit_on_head,
    limit,
    memory_bytes,
    slots_that_fit_or_0,
)

NODE_POLL_SECONDS = 3.0
NODE_ARRIVAL_POLL_SECONDS = 2.0


def slot_bundle(options: SweepOptions, slots: int) -> dict[str, float]:
    """Returns the Ray resources of one slot: on the head where all slots fit there, else on any node for slots.

    On the head a lost node costs a slot its ranks and never the slot; from other nodes Tune moves a slot when its node
    is lost. No CPU, however little: a full node must still hold its workers.
    """
    nodes = cluster_nodes()
    is_head = any(node.head for node in nodes)
    on_head = is_head and (fit_on_head(options, nodes, slots) or not any(node.slots for node in nodes))
    bundle: dict[str, float] = {"memory": memory_bytes(GROUP_GB)}
    if on_head:
        bundle[HEAD_RESOURCE] = 0.001
    if any(node.slots for node in nodes if node.head or not on_head):
        bundle[SLOT] = 1
    return bundle


def describe_places(options: SweepOptions, slots: int, nodes: Sequence[Node]) -> str:
    shape = f"{slots} x {options.workers} workers, isolation {options.isolation}"
    return f"{shape}, limited by {limit(options, nodes)}"


def has_room(options: SweepOptions) -> bool:
    """Tells whether the cluster's free resources, summed over nodes, are enough for one run."""
    import ray

    free = ray.available_resources()
    memory_gb = free.get("memory", 0) / memory_bytes(1)
    room = Node(cpus=free.get("CPU", 0), gpus=free.get("GPU", 0), memory_gb=memory_gb, head=True)
    return slots_that_fit_or_0(replace(options, max_concurrent=None, accelerator_type=None), [room]) > 0


def follow_nodes(options: SweepOptions, slots: int, resize: Callable[[int, str], None], done: threading.Event) -> None:
    """Calls `resize` with the number of slots that fit, and a line for the user, when nodes join or leave."""
    before, on_head = slots, HEAD_RESOURCE in slot_bundle(options, slots)
    while not done.wait(NODE_POLL_SECONDS):
        with contextlib.suppress(Exception):  # Ray ends with the sweep, while this thread still asks
            nodes = cluster_nodes()
            fit = slots_that_fit_or_0(options, nodes)
            if on_head:
                fit = min(fit, int(next(node.memory_gb for node in nodes if node.head) / GROUP_GB))
            if fit and fit != before:
                resize(fit, describe_places(options, fit, nodes))
                before = fit


def wait_for_nodes(options: SweepOptions, over: threading.Event, report: Callable[[str], None]) -> None:
    """Asks a cluster that scales from zero for nodes, and waits `wait_for_nodes_s` seconds at most for one."""
    until = time.monotonic() + options.wait_for_nodes_s
    waits = False
    while not any(node.cpus for node in cluster_nodes()) and time.monotonic() < until and not over.is_set():
        if not waits:
            report(f"no node trains yet; asks for some and waits {options.wait_for_nodes_s / 60:.0f} min for them")
            _ask_for_nodes(options)
        waits = True
        over.wait(NODE_ARRIVAL_POLL_SECONDS)


def _ask_for_nodes(options: SweepOptions) -> None:
    from ray.autoscaler.sdk import request_resources

    rank: dict[str, float] = {"CPU": max(1, round(options.cpus_per_worker)), "memory": memory_bytes(WORKER_GB)}
    if options.gpus_per_worker:
        rank["GPU"] = max(1, round(options.gpus_per_worker))
    if options.accelerator_type:
        rank[f"{KIND_PREFIX}{options.accelerator_type}"] = PART_OF_KIND
    request_resources(bundles=[rank] * options.workers * (options.max_concurrent or 1))
