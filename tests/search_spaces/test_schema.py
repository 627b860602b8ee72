"""The published schema is the code's, and every shipped file satisfies it."""

import functools
import json

import jsonschema
import pytest

from search_spaces.catalog import catalog, find_folder
from search_spaces.identity.method_code import read_released
from search_spaces.schema import schema, text
from search_spaces.strict_yaml import parse_yaml, read_yaml


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def test_published_schema_is_current():
    published = (find_folder() / "schema.json").read_text()
    assert published == text(sorted(read_released())), (
        "run `python -m search_spaces.schema` and commit search_spaces/schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize("name", sorted(catalog()))
def test_shipped_files_satisfy_it(name):
    validator().validate(read_yaml(catalog()[name]))


@pytest.mark.parametrize(
    "bad",
    [
        "space: {method.dup_rat: {grid: [1]}}", "space: {method.dup_rate: {grid: [2]}}",
        "space: {train.seed: {grid: [1]}}",
        "space: {method.dup_rate: {gird: [1]}}", "space: {method.dup_rate: {grid: []}}", "cells: []", "method: simcse",
        "space: {train.precision: {grid: [fp8]}}", "space: {}\nsearch: {sampler: bayes}",
    ],
)  # fmt: skip
def test_it_refuses_what_the_loader_refuses(bad):
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(parse_yaml(f"version: 1\nid: T\n{bad}\n", "T"))


TRAINER = "trainer: {script: train.py, score: {name: acc}}"


@pytest.mark.parametrize("more", ["space: {lr: {grid: [1]}}\nset: {loss: x}", "cells: [{label: a, set: {lr: 1}}]"])
def test_names_beside_a_trainer_are_the_scripts_own(more):
    validator().validate(parse_yaml(f"version: 1\nid: T\n{TRAINER}\n{more}\n", "T"))


@pytest.mark.parametrize("more", ["method: simcse", "components: {x: {lr: 0}}", "dev: sts_dev"])
def test_a_method_of_ours_beside_a_trainer_is_refused(more):
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(parse_yaml(f"version: 1\nid: T\n{TRAINER}\nspace: {{lr: {{grid: [1]}}}}\n{more}\n", "T"))
