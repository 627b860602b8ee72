"""Every method keeps the contract (`cse_train.training.contract`); a new one is tested by being there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training import contract


@pytest.mark.parametrize("check", contract.CONTRACT_CHECKS)
@pytest.mark.parametrize("method", methods.names())
def test_it_keeps_the_contract(
    method: str,
    check: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    tmp_path: Path,
) -> None:
    run = parse_run(tiny_settings(method))
    contract.CONTRACT_CHECKS[check](partial(contract.parts, run, tiny_paths(method)), tmp_path)
