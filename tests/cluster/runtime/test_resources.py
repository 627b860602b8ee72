"""How many slots fit; and kinds of GPUs: what nvidia-smi and Ray say of them, and what they cannot do."""

import dataclasses
from pathlib import Path

import pytest

from cluster.runtime import resources
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import (
    GpuKind,
    Node,
    cards_of,
    check_cards,
    keep_kind,
    local_kinds,
    read_cards,
    slots_that_fit,
)
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


A100, H100, T4 = GpuKind("A100"), GpuKind("H100"), GpuKind("T4", has_bf16=False)
DIVIDED = GpuKind("A100", mig=True)
TABLE = """0, GPU-aa, NVIDIA A100-SXM4-40GB, 8.0, Enabled
1, GPU-bb, Tesla T4, 7.5, [N/A]
2, GPU-cc, NVIDIA GeForce RTX 5090, 12.0, [N/A]
3, GPU-dd, Tesla V100-SXM2-16GB, [N/A], [N/A]
4, GPU-ee, NVIDIA H100 80GB HBM3, [Not Supported], Disabled
"""


KIND, WHOLE = "--accelerator-type", "give --gpus-per-worker 1"
UUID = f"{WHOLE}, and each instance's UUID in CUDA_VISIBLE_DEVICES"
ONE_OF, FP16 = f"give one of these, or leave {KIND} out", "set it to fp16, or give"
WITHOUT_ONE = "a kind of GPU for runs without one: accelerator_type=A100 gpus_per_worker=0"
PART = "part of a MIG instance: gpus_per_worker=0.5 on A100"
DIFFERENT = "parts of different GPUs: gpus_per_worker=0.25 on A100, T4"


def of_cards(**changes) -> SweepOptions:
    return options(**({"gpus_per_worker": 1} | changes))


def test_a_table_with_fields_that_are_not_available_is_read():
    assert read_cards(TABLE) == [
        GpuKind("NVIDIA-A100-SXM4-40GB", True, True),
        GpuKind("Tesla-T4", False),
        GpuKind("NVIDIA-GeForce-RTX-5090", True),
        GpuKind("Tesla-V100-SXM2-16GB", False),
        GpuKind("NVIDIA-H100-80GB-HBM3", True),
    ]
    assert read_cards("No devices were found\n") == read_cards("") == []


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("1", ["Tesla-T4"]),
        ("2, 1", ["Tesla-T4", "NVIDIA-GeForce-RTX-5090"]),
        ("GPU-ee", ["NVIDIA-H100-80GB-HBM3"]),
        ("", []),
        ("-1", []),
    ],
)
def test_only_what_is_visible_counts(visible, names):
    assert [card.name for card in read_cards(TABLE, visible)] == names


def test_a_visible_mig_instance_is_one_of_a_divided_card():
    assert read_cards("0, GPU-aa, NVIDIA A100-SXM4-40GB, 8.0, [N/A]\n", "MIG-11,MIG-22") == [
        GpuKind("NVIDIA-A100-SXM4-40GB", True, True)
    ]


@pytest.mark.parametrize(
    ("name", "kind", "same"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100", True),
        ("NVIDIA-A100-SXM4-40GB", "A10", False),
        ("NVIDIA-A10G", "A10", False),
        ("NVIDIA-GeForce-RTX-5090", "GeForce-RTX-5090", True),
        ("A100", "a100", True),
    ],
)
def test_a_card_is_of_the_kind_that_ray_names(name, kind, same):
    assert GpuKind(name).is_of(kind) is same


@pytest.mark.parametrize(
    ("changes", "known", "precisions", "said", "advice"),
    [
        ({"accelerator_type": "A100"}, [H100, T4], (), "no such GPU: accelerator_type=A100; there: H100, T4", ONE_OF),
        ({"accelerator_type": "A100", "gpus_per_worker": 0}, [A100], (), WITHOUT_ONE, f"{WHOLE}, or leave {KIND} out"),
        ({"gpus_per_worker": 0.5}, [DIVIDED], (), f"{PART}, which MIG has divided already", UUID),
        ({"gpus_per_worker": 0.25}, [A100, T4], (), DIFFERENT, "give --accelerator-type with one of them, or --gpus-p"),
        ({}, [T4], ("bf16",), "no bf16: train.precision=bf16 on T4, before Ampere", "set it to fp16"),
        ({}, [A100, T4], ("bf16", "fp32"), "no bf16: train.precision=bf16 on T4, before Ampere", f"{FP16} {KIND} with"),
        ({"gpus_per_worker": 0}, [], ("fp16",), "no fp16: train.precision=fp16 without GPUs", f"{WHOLE}, or set it to"),
    ],
)
def test_what_cards_cannot_do_is_one_line(changes, known, precisions, said, advice):
    with pytest.raises(ConfigError) as refused:
        check_cards(of_cards(**changes), known, precisions)
    (line,) = refused.value.problems
    assert line.startswith(f"{said}; {advice}")


@pytest.mark.parametrize(
    ("changes", "known", "precisions"),
    [
        ({}, [A100, T4], ("auto", "fp32", "fp16", "tf32")),
        ({}, [DIVIDED], ("bf16",)),
        ({"accelerator_type": "A100", "gpus_per_worker": 0.5}, [A100, T4], ("bf16",)),
        ({"accelerator_type": "A100"}, [], ()),
        ({"gpus_per_worker": 0.5}, [H100], ("bf16",)),
        ({"gpus_per_worker": 0}, [A100, T4], ("bf16", "auto")),
    ],
)
def test_what_they_can_passes(changes, known, precisions):
    check_cards(of_cards(**changes), known, precisions)


def test_runs_that_share_a_card_keep_to_its_kind_whatever_joins():
    half = of_cards(gpus_per_worker=0.5)
    assert keep_kind(half, [A100]).accelerator_type == "A100"
    assert keep_kind(half, []) is half and keep_kind(of_cards(), [A100]) == of_cards()
    asked = of_cards(gpus_per_worker=0.5, accelerator_type="H100")
    assert keep_kind(asked, [A100]) is asked


def node(**changes) -> Node:
    return Node(**({"cpus": 8, "gpus": 2, "memory_gb": 64, "slots": 9} | changes))


def test_slots_are_counted_on_nodes_of_the_kind_alone():
    nodes = [node(cards=(A100,), head=True), node(cards=(T4,)), node()]
    assert slots_that_fit(of_cards(), nodes) == 6
    assert slots_that_fit(of_cards(accelerator_type="A100"), nodes) == 4, "of two nodes, one of which does not say"
    assert slots_that_fit(of_cards(accelerator_type="A100", gpus_per_worker=0.5), nodes[:2]) == 4
    with pytest.raises(ConfigError, match=r"gpus_per_worker=1 of H100\) and"):
        slots_that_fit(of_cards(accelerator_type="H100"), nodes[:2])
    assert cards_of([*nodes, node(gpus=0, cards=(H100,))]) == [A100, T4]


def test_a_node_of_rays_says_the_kind_of_its_cards(monkeypatch):
    facts = {"Alive": True, "NodeManagerHostname": "n", "Resources": {"CPU": 4.0, "GPU": 1.0}}
    facts["Resources"] |= {"accelerator_type:T4": 1.0}
    monkeypatch.setattr("ray.nodes", lambda: [facts])
    (here,) = resources.cluster_nodes()
    assert here.cards == (T4,) and here.gpus == 1


def test_under_wsl_the_driver_alone_says_how_many_there_are(monkeypatch):
    monkeypatch.setattr(resources, "is_wsl", lambda: True)
    monkeypatch.setattr(resources, "ask_driver", lambda: TABLE)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert resources.this_machine().gpus == 5


def test_this_machine_asks_the_driver_for_what_is_visible_where_a_run_wants_gpus(monkeypatch):
    monkeypatch.setattr(resources, "ask_driver", lambda: TABLE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    assert local_kinds(of_cards()) == [GpuKind("Tesla-T4", False), GpuKind("Tesla-V100-SXM2-16GB", False)]
    assert local_kinds(of_cards(gpus_per_worker=0)) == []


def test_a_machine_without_a_driver_has_no_kinds(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    resources.ask_driver.cache_clear()
    assert resources.ask_driver() == ""
    resources.ask_driver.cache_clear()
