"""Whose an error is, for the errors that PyTorch, CUDA and mounts are known to raise."""

import errno

import pytest
from ray.exceptions import ActorUnavailableError, NodeDiedError, RayTaskError

from cluster.slots.fault import fault_of


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), "machine"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "machine"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "machine"),
        (RuntimeError("No CUDA GPUs are available"), "machine"),
        (RuntimeError("NCCL error: unhandled cuda error, NCCL version 2.21.5; CUDA error: 719"), "machine"),
        (OSError(errno.EIO, "Input/output error", "/data/wiki.txt"), "machine"),
        (OSError(errno.ESTALE, "Stale file handle"), "machine"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), "run"),
        (RuntimeError("CUDA error: device-side assert triggered"), "run"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/data/wiki.txt"), "run"),
        (ValueError("a dev set called 'cuda error'"), "run"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "run"),
        (RuntimeError("[gloo] Connection closed by peer [127.0.0.1]"), "echo"),
        (RuntimeError("NCCL communicator was aborted on rank 1"), "echo"),
        (ActorUnavailableError("RpcError: recvmsg:Connection reset by peer rpc_code: 14", None), "echo"),
        (NodeDiedError("node lost"), "echo"),
        (RayTaskError("next_job", "Traceback", ValueError("a method's own")).as_instanceof_cause(), "run"),
    ],
)
def test_an_error_is_the_runs_the_machines_or_an_echo(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault


def test_what_an_error_was_raised_from_counts_too() -> None:
    error = ValueError("cannot read the corpus")
    error.__cause__ = OSError(errno.ESTALE, "Stale file handle", "/data")
    assert fault_of(error) == "machine"


def test_an_error_that_is_its_own_context_ends() -> None:
    error = RuntimeError("a")
    error.__context__ = RuntimeError("b")
    error.__context__.__context__ = error
    assert fault_of(error) == "run"
