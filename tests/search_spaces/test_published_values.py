"""The published numbers in the YAML files are the papers', and every cell that a paper prints is there."""

import pytest

from search_spaces.catalog import load_space
from search_spaces.cells import resolve

STS, TRANSFER = "sts_dev", "transfer_dev"
AXIS = {
    "S6": ("train.corpus", {"nli": 86.2, "pairs:nli_anli": 85.0}),
    "D7": ("method.masking_ratio", {0.15: 84.48, 0.2: 84.04, 0.25: 84.49, 0.3: 84.56, 0.4: 84.48, 0.5: 83.91}),
    "D8": (
        "method.lambda_weight",
        {0.0: 82.22, 1e-4: 83.90, 5e-4: 84.40, 1e-3: 84.24, 5e-3: 84.56, 1e-2: 83.44, 5e-2: 84.11, 0.1: 83.66},
    ),
    "E4": (
        "method.extension",
        {"stop_word": 81.72, "mask": 83.08, "masked_prediction": 84.18, "word": 84.40, "subword": 84.85},
    ),
    "E7": (
        "method.dup_rate",
        {0.08: 83.5, 0.12: 83.62, 0.16: 82.01, 0.2: 83.01, 0.24: 84.24, 0.28: 82.96, 0.32: 84.85, 0.36: 83.84},
    ),
    "E8": ("method.queue_multiple", {1.0: 83.83, 1.5: 83.81, 2.0: 83.03, 2.5: 84.85, 3.0: 82.66}),
}
"""Tables of one axis: value -> STS-B dev."""

TWO_COLUMNS = {
    "D4": {"replace": (84.48, 85.95), "insert": (82.20, 85.96), "delete": (82.59, 85.97), "all": (82.80, 85.92)},
    "D6": {
        "bert-large-uncased": (82.93, 85.88),
        "bert-base-uncased": (83.63, 85.85),
        "distilbert-base-uncased": (84.56, 85.95),
        "google/bert_uncased_L-8_H-512_A-8": (82.25, 85.80),
        "google/bert_uncased_L-4_H-512_A-8": (82.64, 85.66),
        "google/bert_uncased_L-4_H-256_A-4": (82.12, 85.90),
        "google/bert_uncased_L-2_H-128_A-2": (81.40, 85.23),
    },
}
"""DiffCSE's tables of one axis with two results."""

LISTED = {
    "S1": (82.5, 77.8, 71.4, 63.6, 75.9, 72.2, 68.2, 75.9, 74.2, 77.4, 62.2),
    "S2": (67.1, 68.9, 67.4, 68.8, 75.9, 73.1, 82.5, 80.7),
    "S3": (71.1, 72.6, 81.1, 82.5, 81.4, 80.5, 71.0, 43.6),
    "S5": (82.5, 81.8, 81.8, 81.5, 81.4, 79.7, 78.7, 84.1, 84.9, 82.6, 82.9, 77.5, 77.6, 81.7, 81.9),
    "E5": (84.09, 81.92, 82.00, 82.66, 82.00, 82.13, 83.00, 82.18),
    "D3": (81.47, 84.56, 54.48, 82.91, 83.41, 83.08, 75.82, 82.88, 79.79),
    "D5": (84.56, 83.23, 82.22, 81.47),
    "D11": (81.47, 73.59, 80.39, 78.58, 83.02, 55.65, 55.13, 84.48, 82.20, 82.59),
}
"""Tables of listed cells, top to bottom and left to right: STS-B dev."""

LISTED_TRANSFER = {
    "D3": (83.91, 85.95, 83.46, 85.83, 85.82, 84.43, 85.68, 84.82, 85.30),
    "D5": (85.95, 85.24, 85.66, 83.91),
    "D11": (83.91, 83.33, 83.92, 81.80, 84.49, 79.86, 82.56, 85.95, 85.96, 85.97),
}
"""The same tables' second column: mean dev accuracy of seven transfer tasks."""


def rows(name):
    paper = load_space(name).paper
    assert paper is not None
    return [(row.key, row.cells) for row in paper.rows]


@pytest.mark.parametrize("name", AXIS)
def test_one_axis(name):
    axis, values = AXIS[name]
    assert {key[axis]: cells for key, cells in rows(name)} == {v: {STS: score} for v, score in values.items()}
    assert len(values) == resolve(load_space(name), "paper").size()


@pytest.mark.parametrize("name", TWO_COLUMNS)
def test_one_axis_two_results(name):
    values = {next(iter(key.values())): (cells[STS], cells[TRANSFER]) for key, cells in rows(name)}
    assert values == TWO_COLUMNS[name]


@pytest.mark.parametrize("name", LISTED)
def test_listed_cells(name):
    space = load_space(name)
    assert tuple(cells[STS] for _, cells in rows(name)) == LISTED[name]
    assert [dict(key) for key, _ in rows(name)] == [cell.key for cell in resolve(space, "paper").rows()]


@pytest.mark.parametrize("name", LISTED_TRANSFER)
def test_listed_cells_of_the_second_column(name):
    assert tuple(cells[TRANSFER] for _, cells in rows(name)) == LISTED_TRANSFER[name]


def test_components_of_esimcse():
    values = {(k["method.dup_rate"], k["method.queue_multiple"]): c[STS] for k, c in rows("E3")}
    assert values == {(0.0, 0.0): 82.45, (0.32, 0.0): 84.09, (0.0, 2.5): 83.98, (0.32, 2.5): 84.85}


def test_poolers_of_simcse():
    values = {(k["method.objective"], k["method.pooler"]): c[STS] for k, c in rows("S7")}
    unsupervised = {"cls": 81.7, "cls_train_only": 82.5, "cls_no_mlp": 80.9, "first_last": 81.2}
    supervised = {"cls": 86.2, "cls_train_only": 85.8, "cls_no_mlp": 86.2, "first_last": 86.1}
    assert values == {("unsupervised", k): v for k, v in unsupervised.items()} | {
        ("triplets", k): v for k, v in supervised.items()
    }


def test_frameworks_of_d2cse():
    scores = {
        (k["method.objective"], k["method.framework"], k["method.cls_prompt"]): c["sts_avg"] for k, c in rows("C4")
    }
    prompt_and_static = {
        "unsupervised": {"a": (78.22, 78.22), "b": (78.02, 78.38), "c": (78.74, 78.56), "d": (78.83, 79.02)},
        "triplets": {"a": (81.23, 81.21), "b": (81.32, 81.18), "c": (81.36, 81.23), "d": (81.52, 81.25)},
    }
    assert scores == {
        (objective, framework, prompt): values[not prompt]
        for objective, table in prompt_and_static.items()
        for framework, values in table.items()
        for prompt in (True, False)
    }


def test_runs_that_tables_share_have_the_same_numbers():
    simcse = {"D3": 0, "D5": 3, "D11": 0}
    assert {tuple(rows(name)[at][1].values()) for name, at in simcse.items()} == {(81.47, 83.91)}
    assert rows("D8")[0][1][STS] == rows("D5")[2][1][STS] == 82.22
