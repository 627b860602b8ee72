import dataclasses

import pytest

from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import TextModel, sts_protocol
from cse_train.results import CODE_VERSION


@pytest.fixture
def model(made_model) -> TextModel:
    return dataclasses.replace(made_model, pooler="mean", max_length=64)


def test_protocol_of_a_set(pairs: Pairs, model: TextModel) -> None:
    protocol = sts_protocol(pairs, model)
    assert protocol.facts == {
        "suite": "made",
        "pooler": "mean",
        "aggregation": "all",
        "split": "test",
        "max_length": 64,
        "precision": "fp32",
        "case": "as is",
        "rule": "",
        "data_hash": "hash",
        "code_version": CODE_VERSION,
    }


def test_protocol_cannot_change_after_the_fact(pairs: Pairs, model: TextModel) -> None:
    protocol = sts_protocol(pairs, model)
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.pooler = "cls"  # type: ignore[misc]
    assert protocol == sts_protocol(pairs, model)
    assert protocol != sts_protocol(pairs, dataclasses.replace(model, pooler="cls"))
