import dataclasses
from pathlib import Path

import pytest

from cluster.runtime import resources
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import Node, slots_that_fit
from cse_train.fields import ConfigError


def options(**changes) -> SweepOptions:
    return SweepOptions(storage=Path("x"), **changes)


@pytest.mark.parametrize(
    ("nodes", "changes", "slots"),
    [
        ([(8, 0, 64)], {"workers": 2}, 4),
        ([(8, 0, 64)], {"workers": 2, "cpus_per_worker": 2}, 2),
        ([(8, 0, 6.1)], {"workers": 2}, 2),
        ([(8, 0, 64)], {"workers": 2, "max_concurrent": 3}, 3),
        ([(3, 0, 64), (3, 0, 64)], {"workers": 2}, 3),
        ([(16, 4, 64)], {"workers": 2, "gpus_per_worker": 1}, 2),
        ([(16, 1, 64)], {"workers": 1, "gpus_per_worker": 0.25}, 4),
        ([(2, 0, 64)], {"workers": 1, "cpus_per_worker": 0.5}, 4),
        ([(16, 1, 64)], {"workers": 1, "gpus_per_worker": 0.3333}, 3),
        ([(64, 0, 256)], {"workers": 1}, 64),
        ([(1, 0, 64)] * 64, {"workers": 1}, 64),
        ([(0, 0, 3.1)] + [(8, 0, 32)] * 8, {"workers": 1}, 5),
    ],
)
def test_slots_are_bounded_by_cpus_gpus_ram_and_the_user(nodes, changes, slots):
    made = [Node(cpus=c, gpus=g, memory_gb=m) for c, g, m in nodes]
    assert slots_that_fit(options(**changes), made) == slots


@pytest.mark.parametrize(
    ("node", "changes", "said"),
    [
        ((2, 0, 64), {"workers": 3}, "workers=3"),
        ((2, 1, 64), {"gpus_per_worker": 2}, "1 GPUs"),
        ((2, 0, 1.5), {"workers": 2}, "3.0 GB of RAM"),
    ],
)
def test_a_run_that_cannot_fit_is_named_with_what_is_there(node, changes, said):
    with pytest.raises(ConfigError) as caught:
        slots_that_fit(options(**changes), [Node(cpus=node[0], gpus=node[1], memory_gb=node[2])])
    assert len(caught.value.problems) == 1
    assert said in str(caught.value) and f"{node[0]} CPUs" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "fill", "near"),
    [
        (0.3, "gpus_per_worker=0.3 lets 3 runs fill 0.9 of it", "0.3333 or 0.25"),
        (0.7, "gpus_per_worker=0.7 lets 1 run fill 0.7 of it", "1 or 0.5"),
        (0.4, "gpus_per_worker=0.4 lets 2 runs fill 0.8 of it", "0.5 or 0.3333"),
    ],
)
def test_a_fraction_that_does_not_divide_a_card_is_refused_with_its_neighbours(asked, fill, near):
    with pytest.raises(ConfigError) as caught:
        resources.check_options(options(gpus_per_worker=asked))
    (line,) = caught.value.problems
    assert line == f"part of a GPU is left over: {fill}; give a fraction that divides 1: {near}"


@pytest.mark.parametrize("fraction", [1, 0.5, 0.3333, 1 / 3, 0.25, 0.2, 0.1666, 0.125, 0.1, 0.05, 0])
def test_fractions_that_divide_a_card_pass(fraction):
    resources.check_options(options(gpus_per_worker=fraction))


@pytest.mark.parametrize("parts", range(1, 33))
def test_the_neighbours_of_a_fraction_are_valid_and_lie_around_it(parts):
    asked = (1 / parts + 1 / (parts + 1)) / 2
    with pytest.raises(ConfigError) as caught:
        resources.check_options(options(gpus_per_worker=asked))
    high, low = (float(word) for word in caught.value.problems[0].rpartition(": ")[2].split(" or "))
    assert low < asked < high
    for fraction in (low, high):
        resources.check_options(options(gpus_per_worker=fraction))


def test_nodes_without_a_card_are_named_where_one_is_asked():
    nodes = [Node(cpus=4, gpus=0, memory_gb=9, name=f"node{i}") for i in range(6)]
    with pytest.raises(ConfigError) as caught:
        slots_that_fit(options(gpus_per_worker=0.5), nodes)
    (line,) = caught.value.problems
    assert line.startswith("no GPU: gpus_per_worker=0.5; there: node0 4 CPUs, 0 GPUs, 9.0 GB free; node1 ")
    assert "and 2 more; start Ray on a machine with GPUs" in line


def test_two_ranks_on_one_card_are_refused_before_anything_is_looked_at():
    with pytest.raises(ConfigError, match=r"two ranks on one GPU: workers=2 gpus_per_worker=0\.5"):
        slots_that_fit(options(workers=2, gpus_per_worker=0.5), [])


def test_every_bad_option_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        resources.check_options(options(workers=0, max_concurrent=0, gpus_per_worker=1.5))
    assert [line.split(":")[1].split("=")[0].strip() for line in caught.value.problems] == [
        "workers",
        "max_concurrent",
        "gpus_per_worker",
    ]


def test_this_machine_has_what_the_kernel_says():
    here = resources.this_machine()
    assert here.cpus >= 1
    assert 0 < here.memory_gb < 100_000


def test_no_visible_card_is_no_card(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert resources.this_machine().gpus == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert resources.this_machine().gpus == 2


GPU_NODE = Node(cpus=64, gpus=8, memory_gb=400, slots=1024, name="worker")
SMALL_HEAD = Node(cpus=0, gpus=0, memory_gb=5.6, slots=1024, name="head", head=True)
BARE_NODE = dataclasses.replace(GPU_NODE, slots=0)


@pytest.mark.parametrize(
    ("nodes", "changes", "slots", "named"),
    [
        ([SMALL_HEAD] + [GPU_NODE] * 8, {"gpus_per_worker": 1}, 64, "GPUs"),
        ([SMALL_HEAD] + [GPU_NODE] * 125, {"gpus_per_worker": 1}, 1000, "GPUs"),
        ([SMALL_HEAD] + [GPU_NODE] * 125, {"gpus_per_worker": 1, "workers": 4}, 250, "GPUs"),
        ([SMALL_HEAD] + [BARE_NODE] * 8, {"gpus_per_worker": 1}, 9, "the head's memory (5.6 GB, 0.6 a slot); start"),
        ([SMALL_HEAD] + [GPU_NODE] * 8, {"gpus_per_worker": 1, "max_concurrent": 20}, 20, "--max-concurrent 20"),
        ([SMALL_HEAD] + [GPU_NODE] * 8, {"cpus_per_worker": 16}, 32, "CPUs"),
        ([Node(cpus=8, gpus=0, memory_gb=6)], {}, 3, "memory"),
        ([Node(cpus=2, gpus=0, memory_gb=64)], {}, 2, "CPUs"),
        ([Node(cpus=2, gpus=0, memory_gb=3.6)], {}, 2, "CPUs and memory"),
    ],
)
def test_a_line_says_what_limits_the_slots(nodes, changes, slots, named):
    assert slots_that_fit(options(**changes), nodes) == slots
    assert resources.limit(options(**changes), nodes).startswith(named)


def test_a_slot_on_a_node_takes_room_from_its_ranks():
    nodes = [SMALL_HEAD] + [dataclasses.replace(GPU_NODE, memory_gb=8)] * 4
    fit = slots_that_fit(options(gpus_per_worker=1), nodes)
    assert fit == 16 and resources.limit(options(gpus_per_worker=1), nodes).startswith("the head's memory")
    assert fit * (resources.GROUP_GB + resources.WORKER_GB) <= 4 * 8 + 5.6
