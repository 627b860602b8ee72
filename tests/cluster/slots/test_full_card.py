"""A card whose memory is used up: a neighbour may have it, so the run gets a whole one, and fails by itself alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cluster.slots import process_state, worker
from cluster.slots.fault import error_event
from tests.cluster.full_card import FULL
from tests.cluster.jobs import slot_of

REPO = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError(FULL), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("NCCL error in: x.cpp:1, unhandled cuda error. Cuda failure 2 'out of memory'"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"), False),
        (ValueError("a dev set called 'CUDA out of memory'"), False),
        (MemoryError(), False),
    ],
)
def test_a_full_card_is_known_by_what_torch_and_its_libraries_say(error: Exception, full: bool) -> None:
    assert error_event(error).card_full is full


def ended(gpus: float, error: Exception) -> dict:
    """What a slot says of a job with so much of a card that raised the error."""
    slot = slot_of(gpus=gpus)
    slot.group.coming = [error_event(error)]
    result = slot.step()
    assert slot.group.calls[-1] == "abort" and result["done"]
    return dict(result)


def test_it_is_the_runs_own_fault_on_a_whole_card_alone() -> None:
    shared, alone = ended(0.5, torch.OutOfMemoryError(FULL)), ended(1, torch.OutOfMemoryError(FULL))
    assert shared["state"] == "crowded" and shared["reason"].startswith("out of memory: CUDA out of memory. Tried to")
    assert ";" not in shared["reason"], "to lower the batch size is no advice yet"
    assert alone["state"] == "failed" and "lower train.batch_size" in alone["reason"]
    assert ended(0.5, ValueError("mine"))["state"] == "failed"


@pytest.mark.parametrize(
    ("share", "size_gb", "part"),
    [(0.5, 80, 0.4925), (0.25, 16, 0.2125), (0.1, 4, 0.05), (1, 80, None), (0, 80, None)],
)
def test_a_part_of_a_card_is_a_part_of_its_memory_less_what_cuda_takes(
    share: float, size_gb: int, part: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[float] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    card = SimpleNamespace(total_memory=size_gb * 2**30)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: card)
    monkeypatch.setattr("torch.cuda.set_per_process_memory_fraction", set_to.append)
    process_state.limit_card_memory(share)
    assert set_to == ([] if part is None else [pytest.approx(part)])


def test_between_two_jobs_the_cache_goes_back_after_the_jobs_own_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr("gc.collect", lambda: done.append("tensors"))
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: done.append("cache"))
    worker._collect(first=False)
    assert done == ["tensors", "cache"]


@pytest.mark.parametrize(
    ("gpus", "name", "refused"),
    [
        (0.5, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", True),
        (1, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", False),
        (0.5, "NVIDIA A100-SXM4-40GB", False),
    ],
)
def test_a_rank_refuses_a_part_of_a_mig_instance(
    gpus: float, name: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a cluster that was joined, of which Ray says the kind of the whole card alone."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: name)
    said = worker._setup_problem((), gpus)
    assert (said is not None) is refused
    assert said is None or said.startswith(f"part of a MIG instance: gpus_per_worker=0.5 on {name}, which MIG has ")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_neighbour_that_takes_all_memory_costs_the_innocent_run_nothing(tmp_path: Path) -> None:
    """Two runs share a pretended card in a Ray of their own (`full_card`)."""
    command = [sys.executable, "-m", "tests.cluster.full_card", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    done = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["rows"] == {"0": ["done", 1], "1": ["done", 1], "2": ["failed", 1]}
    assert [name for name, _ in said["requeued"]] == ["signature1", "signature2"]
    assert said["requeued"][0][1].startswith("tried again alone on a whole card; out of memory: CUDA out of memory")
    assert said["tries"]["try-1-0"] == "0 1" and said["tries"]["try-1-1"] == "0 0", (
        "the second time it had no neighbour"
    )
    assert sorted(said["tries"]) == ["try-0-0", "try-1-0", "try-1-1", "try-2-0", "try-2-1"]
    (reason,) = said["failures"]
    assert reason.startswith("out of memory: ") and "lower train.batch_size" in reason
