"""A run's configuration: every problem at once, and no library but Python's own to read it."""

import subprocess
import sys

import pytest

from cse_train.config import parse_run, run_problems
from cse_train.fields import ConfigError, describe, fits, hints, normal, range_of
from cse_train.methods.options.simcse import Config

BLOCKED = ("pydantic", "pydantic_core", "annotated_types", "ray", "optuna", "typer", "sqlalchemy")
SCRIPT = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED}))
from cse_train.config import parse_run
run = parse_run({{"method": "simcse", "train.learning_rate": 1, "method.temperature": 0.1}})
print(run.train.learning_rate, run.options.temperature)
"""


def test_a_run_is_read_where_pydantic_is_absent() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "0.1"]


def test_every_problem_of_a_run_at_once() -> None:
    wrong = {"method": "simcse", "train.batch_size": 1, "method.tempreture": 1, "train.dropout": True, "other": 1}
    with pytest.raises(ConfigError) as caught:
        parse_run(wrong)
    assert caught.value.problems == [
        "unknown key: method.tempreture=1; did you mean method.temperature?",
        "out of range: train.batch_size=1; give int >= 2",
        "wrong type: train.dropout=True is a bool; give float >= 0 and < 1 or null",
        caught.value.problems[3],
    ]
    assert caught.value.problems[3].startswith("unknown key: other=1; ")


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("mlm_weight", 1, 1.0), ("mlm_weight", None, None), ("mlm_weight", 0.5, 0.5), ("fixed_dropout", True, True),
        ("pooler", "cls", "cls"), ("synonyms", None, None), ("synonyms", "folder", "folder"),
    ],
)  # fmt: skip
def test_an_int_becomes_the_float_that_a_field_holds(name: str, value: object, held: object) -> None:
    annotation = hints(Config)[name]
    assert fits(annotation, value)
    assert normal(annotation, value) == held and type(normal(annotation, value)) is type(held)


@pytest.mark.parametrize(
    ("name", "value"),
    [("mlm_weight", True), ("mlm_weight", "1"), ("fixed_dropout", 1), ("pooler", "clss"), ("pooler", 1)],
)
def test_no_other_type_passes_for_a_field_s_own(name: str, value: object) -> None:
    assert not fits(hints(Config)[name], value)


def test_a_range_is_seen_through_an_optional_field() -> None:
    assert str(range_of(hints(Config)["mlm_weight"])) == "> 0"
    assert describe(hints(Config)["mlm_weight"]) == "float > 0 or null"


@pytest.mark.parametrize(
    ("method", "encoder", "problem"),
    [
        ("infersent", "glove.6B.300d.txt", None),
        ("infersent", "glove-6b-50d", None),
        ("simcse", "bert-base-uncased", None),
        ("infersent", "bert-base-uncased", "no word vectors: train.encoder=bert-base-uncased for method=infersent; "
         "give a text file of .txt or .vec, or glove-6b-50d"),
        ("simcse", "crawl.vec", "word vectors: train.encoder=crawl.vec for method=simcse, which trains a transformer; "
         "choose one"),
    ],
)  # fmt: skip
def test_word_vectors_go_with_methods_that_read_them(method: str, encoder: str, problem: str | None) -> None:
    assert run_problems({"method": method, "train.encoder": encoder}) == [problem] * (problem is not None)
