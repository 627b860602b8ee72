"""Costs by hand: examples over throughput, and the stated rule for other encoders."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.plan.cost import CHECKPOINT_BYTES, ENCODER_SHAPES, EXAMPLES_PER_SECOND, Cost, Rates, rates
from cse_train import methods
from cse_train.config import RunConfig, parse_run
from cse_train.encoder.folders import list_encoders


def run(method: str = "simcse", encoder: str = "words-l4-h128", examples: int = 2510) -> RunConfig:
    return parse_run({"method": method, "train.encoder": encoder, "train.examples": examples})


def row(examples: int, seconds: float | None, state: str = "done", encoder: str = "words-l4-h128") -> Any:
    config = {"train.encoder": encoder}
    return SimpleNamespace(state=state, config=config, method="simcse", examples=examples, seconds=seconds)


def test_the_ledgers_own_runs_come_before_the_shipped_figures() -> None:
    assert Rates().seconds(run()) == 2510 / EXAMPLES_PER_SECOND["simcse"]
    known = rates([row(1000, 2.0), row(3000, 6.0), row(9, 1.0, "failed"), row(9, None)])
    assert known.runs == 2 and known.measured == {("simcse", "words-l4-h128"): 500.0}
    assert known.seconds(run()) == 2510 / 500
    assert "2 finished runs of this ledger" in known.source()


def test_other_encoders_by_layers_and_squared_width() -> None:
    base = Rates().seconds(run(encoder="bert-base-uncased"))
    assert base == pytest.approx(10.0 * (12 * 768**2) / (4 * 128**2))
    assert Rates().seconds(run(encoder="words-l1-h64")) == 10.0
    faster = rates([row(1000, 2.0)])
    assert faster.seconds(run(encoder="bert-base-uncased")) == pytest.approx(base * 251 / 500)


def test_a_card_s_hours_by_its_measured_steps() -> None:
    """A million sentences on BERT-base as docs/start.md has them; the smallest encoders are bound by launches."""

    def minutes(encoder: str, precision: str, method: str = "simcse") -> float:
        settings = {"method": method, "train.encoder": encoder, "train.examples": 10**6, "train.precision": precision}
        return Rates().card_seconds(parse_run(settings)) / 60

    assert round(minutes("bert-base-uncased", "bf16")) == 7 and round(minutes("bert-base-uncased", "fp32")) == 14
    assert minutes("bert-base-uncased", "auto") == minutes("bert-base-uncased", "bf16")
    assert minutes("words-l2-h128", "fp32") == minutes("words-l4-h128", "fp32") == pytest.approx(1e6 / 5942 / 60)
    assert minutes("roberta-large", "bf16") == pytest.approx(1e6 / 2412 / 60 * (24 * 1024**2) / (12 * 768**2))
    assert minutes("words-l2-h128", "fp32", "diffcse") == pytest.approx(1e6 / 5942 / 60 * 251 / 95)
    assert minutes("some/model", "bf16") == 0


def test_what_is_not_known_is_said_to_be() -> None:
    cost = Rates().cost(run(encoder="some/model"))
    assert (cost.examples, cost.core_seconds, cost.unknown) == (2510, 0.0, 1)
    rates_of_two = Rates(workers=2)
    total = rates_of_two.cost(run()) + rates_of_two.cost(run(encoder="some/model"))
    assert (total.examples, total.core_seconds, total.unknown) == (5020, 20.0, 1)


def test_a_method_without_figures_costs_as_the_median_until_the_ledger_has_its_own() -> None:
    mine = dataclasses.replace(run(), method="mine")
    figures = sorted(EXAMPLES_PER_SECOND.values())
    assert Rates().seconds(mine) == 2510 / figures[len(figures) // 2]
    assert Rates().cost(mine).unknown == 0 and "methods without such runs by the median" in Rates().source()
    assert Rates({("mine", "words-l4-h128"): 100.0}).seconds(mine) == 25.1


def test_disk_grows_with_the_parameters() -> None:
    assert Rates().cost(run(encoder="some/model")).disk_bytes == CHECKPOINT_BYTES["simcse"]
    assert Rates().cost(run()).disk_bytes == round(CHECKPOINT_BYTES["simcse"] * 4.3 / 1.9)
    assert Rates().cost(run(encoder="bert-base-uncased")).disk_bytes == round(CHECKPOINT_BYTES["simcse"] * 110 / 1.9)
    assert Cost(1, 2.0, 3).times(4) + Cost(1, 0.0, 0, 1) == Cost(5, 8.0, 12, 1)


def test_every_measured_method_and_shipped_encoder_has_a_figure() -> None:
    assert set(EXAMPLES_PER_SECOND) == set(CHECKPOINT_BYTES) <= set(methods.names())
    assert set(list_encoders()) <= set(ENCODER_SHAPES)
