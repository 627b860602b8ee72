"""When a fused kernel counts as proved: what a passing fault says about it is nothing."""

import errno
import logging
import subprocess
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder import card
from cse_train.encoder.card import LayerStates, is_right

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
PASSING = [
    FULL,
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError(),
    OSError(errno.ENOSPC, "No space left on device", "/root/.triton/cache/x"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    subprocess.CalledProcessError(-9, ["ptxas"]),
]
LASTING = [
    RuntimeError("no such target: sm_12"),
    PermissionError(errno.EACCES, "Permission denied", "/root/.triton"),
    subprocess.CalledProcessError(1, ["gcc"]),
]
Norm = Callable[..., LayerStates]


def by_torch(product_TH: Tensor, bias_H: Tensor, x_TH: Tensor, norm: nn.LayerNorm, rate: float) -> LayerStates:
    full = F.layer_norm(x_TH + product_TH.float() + bias_H.float(), norm.normalized_shape, norm.weight, norm.bias)
    return LayerStates(full, full.to(product_TH.dtype))


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Norm], bool]]:
    """Returns True if the kernel computes what torch does, on a machine that has a compiler."""

    def ask(kernel: Norm) -> bool:
        monkeypatch.setattr(card, "add_and_norm", kernel)
        return is_right(torch.device("cpu"), torch.float16, 64)

    monkeypatch.setattr(card, "find_lacking", lambda: "")
    is_right.cache_clear()
    yield ask
    is_right.cache_clear()


def failing(error: Exception, cause: Exception | None = None) -> Norm:
    def kernel(*about: object) -> LayerStates:
        raise error from cause

    return kernel


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_passes_is_raised_and_the_kernels_are_looked_at_again(
    error: Exception, proved: Callable[[Norm], bool], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)) as raised:
        proved(failing(error))
    assert raised.value is error
    with pytest.raises(ValueError, match="in a kernel"):
        proved(failing(ValueError("in a kernel"), error))
    assert proved(by_torch), "the neighbour is gone, and the process the same"
    assert not caplog.messages


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_what_lasts_is_said_once_and_remembered(
    error: Exception, proved: Callable[[Norm], bool], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not proved(failing(error)) and not proved(by_torch)
    (line,) = caplog.messages
    assert line.startswith("slow LayerNorm: the kernels for it cannot be used here: ")
