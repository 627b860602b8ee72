"""Programs that this process knows are forgotten after each test."""

from collections.abc import Iterator

import pytest

from cse_train.plugins import registry


@pytest.fixture(autouse=True)
def no_programs_after() -> Iterator[None]:
    yield
    registry.forget()
