"""Blocks that are freed and allocated again are not cleared by the system again."""

import resource

import pytest
import torch

from cse_train.memory import keep_freed_memory

NUMBERS = 8 * 2**20


def test_the_same_block_again_costs_no_page_faults() -> None:
    if not keep_freed_memory():
        pytest.skip("the C library has no mallopt: only glibc has")
    torch.ones(NUMBERS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(NUMBERS)
    pages = 10 * NUMBERS * 4 / resource.getpagesize()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 0.05 * pages
