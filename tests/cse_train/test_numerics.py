"""Large blocks come from the heap, which stays with the process, and not from the system each time."""

from pathlib import Path

import pytest
import torch

from cse_train.numerics import keep_freed_memory


def test_a_large_block_lies_in_the_heap() -> None:
    """64 MB is above the largest block that glibc ever keeps by itself."""
    if not keep_freed_memory():
        pytest.skip("the C library has no mallopt: only glibc has")
    block = torch.empty(16 * 2**20)
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [(int(end, 16) for end in line[0].split("-")) for line in lines if line[-1] == "[heap]"]
    assert any(first <= block.data_ptr() < last for first, last in spans)
