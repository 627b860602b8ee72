"""Kinds of GPUs: what nvidia-smi and Ray say of them, and what they cannot do."""

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

A100, H100, T4 = GpuKind("A100"), GpuKind("H100"), GpuKind("T4", has_bf16=False)
DIVIDED = GpuKind("A100", mig=True)
TABLE = """0, GPU-aa, NVIDIA A100-SXM4-40GB, 8.0, Enabled
1, GPU-bb, Tesla T4, 7.5, [N/A]
2, GPU-cc, NVIDIA GeForce RTX 5090, 12.0, [N/A]
3, GPU-dd, Tesla V100-SXM2-16GB, [N/A], [N/A]
4, GPU-ee, NVIDIA H100 80GB HBM3, [Not Supported], Disabled
"""


def options(**changes) -> SweepOptions:
    return SweepOptions(storage=Path("x"), **({"gpus_per_worker": 1} | changes))


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
    ("changes", "known", "precisions", "said"),
    [
        (
            {"accelerator_type": "A100"},
            [H100, T4],
            (),
            "no such GPU: accelerator_type=A100; there: H100, T4; give one of these, or leave --accelerator-type out",
        ),
        (
            {"accelerator_type": "A100", "gpus_per_worker": 0},
            [A100],
            (),
            "a kind of GPU for runs without one: accelerator_type=A100 gpus_per_worker=0; give --gpus-per-worker 1, or "
            "leave --accelerator-type out",
        ),
        (
            {"gpus_per_worker": 0.5},
            [DIVIDED],
            (),
            "part of a MIG instance: gpus_per_worker=0.5 on A100, which MIG has divided already; give "
            "--gpus-per-worker 1, and each instance's UUID in CUDA_VISIBLE_DEVICES",
        ),
        (
            {"gpus_per_worker": 0.25},
            [A100, T4],
            (),
            "parts of different GPUs: gpus_per_worker=0.25 on A100, T4; give --accelerator-type with one of them, or "
            "--gpus-per-worker 1",
        ),
        ({}, [T4], ("bf16",), "no bf16: train.precision=bf16 on T4, before Ampere; set it to fp16"),
        (
            {},
            [A100, T4],
            ("bf16", "fp32"),
            "no bf16: train.precision=bf16 on T4, before Ampere; set it to fp16, or give --accelerator-type with "
            "another",
        ),
        (
            {"gpus_per_worker": 0},
            [],
            ("fp16",),
            "no fp16: train.precision=fp16 without GPUs; give --gpus-per-worker 1, or set it to fp32",
        ),
    ],
)
def test_what_cards_cannot_do_is_one_line(changes, known, precisions, said):
    with pytest.raises(ConfigError) as refused:
        check_cards(options(**changes), known, precisions)
    assert refused.value.problems == [said]


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
    check_cards(options(**changes), known, precisions)


def test_runs_that_share_a_card_keep_to_its_kind_whatever_joins():
    half = options(gpus_per_worker=0.5)
    assert keep_kind(half, [A100]).accelerator_type == "A100"
    assert keep_kind(half, []) is half and keep_kind(options(), [A100]) == options()
    asked = options(gpus_per_worker=0.5, accelerator_type="H100")
    assert keep_kind(asked, [A100]) is asked


def node(**changes) -> Node:
    return Node(**({"cpus": 8, "gpus": 2, "memory_gb": 64, "slots": 9} | changes))


def test_slots_are_counted_on_nodes_of_the_kind_alone():
    nodes = [node(cards=(A100,), head=True), node(cards=(T4,)), node()]
    assert slots_that_fit(options(), nodes) == 6
    assert slots_that_fit(options(accelerator_type="A100"), nodes) == 4, "of two nodes, one of which does not say"
    assert slots_that_fit(options(accelerator_type="A100", gpus_per_worker=0.5), nodes[:2]) == 4
    with pytest.raises(ConfigError, match=r"gpus_per_worker=1 of H100\) and"):
        slots_that_fit(options(accelerator_type="H100"), nodes[:2])
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
    assert local_kinds(options()) == [GpuKind("Tesla-T4", False), GpuKind("Tesla-V100-SXM2-16GB", False)]
    assert local_kinds(options(gpus_per_worker=0)) == []


def test_a_machine_without_a_driver_has_no_kinds(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    resources.ask_driver.cache_clear()
    assert resources.ask_driver() == ""
    resources.ask_driver.cache_clear()
