"""The published tables as files: whole rows that re-add, the papers' numbers, misprints kept."""

import functools
import itertools
from statistics import fmean

import pytest

from analysis.answers.build import columns_of
from cse_train.evaluate.suites.registry import columns
from search_spaces.catalog import catalog, find_folder, load_space, load_spaces
from search_spaces.cells import resolve

IDS = {f"{paper}{n}" for paper, last in {"S": 9, "D": 12, "E": 10, "C": 6, "L": 8}.items() for n in range(1, last + 1)}
SOURCES = {
    "S": "ACL Anthology 2021.emnlp-main.552, arXiv 2104.08821",
    "D": "ACL Anthology 2022.naacl-main.311, arXiv 2204.10298",
    "E": "arXiv 2109.04380",
    "C": "arXiv 2304.08991",
    "L": "ACL Anthology 2021.acl-long.72, arXiv 2006.03659",
}
MISPRINTS = {
    ("D2", "Avg. BERT embeddings"): (84.94, 84.87),
    ("C1", "PromptBERT base"): (78.54, 78.52),
    ("C6", "DCPCSE-BERT base (its paper)"): (81.65, 81.66),
    ("E2", "Mirror-BERT base"): (75.40, 75.41),
    ("E2", "Mirror-RoBERTa base"): (76.40, 76.39),
    ("S9", "SBERT base"): (74.89, 74.86),
}
"""(table, row) -> the average as printed and the mean of its row, by hand."""
ROWS = {
    ("S8", "SimCSE-RoBERTa large"): (72.86, 83.99, 75.62, 84.77, 81.80, 81.98, 71.26, 78.90),
    ("S9", "SimCSE-RoBERTa large"): (77.46, 87.27, 82.36, 86.66, 83.93, 86.70, 81.95, 83.76),
    ("D1", "DiffCSE-RoBERTa base"): (70.05, 83.43, 75.49, 82.81, 82.12, 82.38, 71.19, 78.21),
    ("D2", "SimCSE-BERT base w/ MLM"): (82.92, 87.23, 95.71, 88.73, 86.81, 87.01, 78.07, 86.64),
    ("D9", "DiffCSE-BERT base"): (78.87, 95.36, 97.42),
    ("D10", "SimCSE-BERT base"): (0.177, -2.313, 76.16),
    ("E2", "ESimCSE-BERT large"): (73.21, 85.37, 77.73, 84.30, 78.92, 80.73, 74.89, 79.31),
    ("E6", "ESimCSE"): (36.82, 36.87, 0.05),
    ("E9", "ESimCSE"): (81.32, 86.22, 94.74, 88.74, 85.50, 91.00, 74.90, 86.06),
    ("E10", "SimCSE"): (0.69, 0.32, 0.99, 0.98),
    ("C1", "D2CSE-RoBERTa base"): (70.53, 83.22, 75.61, 83.64, 82.53, 83.08, 72.54, 78.74),
    ("C2", "Supervised D2CSE-BERT base"): (92.78, 98.45, 99.48, 81.52),
    ("C3", "D2CSE-BERT base"): (0.062, -1.2627, 79.02),
    ("C6", "D2CSE-RoBERTa base"): (75.65, 87.26, 81.39, 86.31, 84.46, 86.17, 78.68, 82.85),
    ("L1", "DeCLUTR-base"): (78.16, 73.80, 75.98),
    ("L7", "DeCLUTR-small"): (76.97, 77.18),
}
"""One row of each main table, read in the papers' texts a second time."""
SEARCHES = ("D12", "C5", "simcse_grid", "d2cse_rate_stage_1", "d2cse_rate_stage_2", "d2cse_prompt_length")


@functools.cache
def tables():
    return {space.id: space for space in load_spaces(find_folder() / "papers")}


def printed():
    """(table, row, average) of every row that has one and what it is the mean of."""
    for name, space in tables().items():
        for average in space.paper.average:
            for row in (*space.paper.rows, *space.paper.references):
                if {average.column, *average.of} <= set(row.cells):
                    yield name, row, average


def label_of(name, row):
    """What the paper calls a row, trained here or not."""
    cells = resolve(tables()[name], "paper").cells()
    return row.label if hasattr(row, "label") else next(cell.label for cell in cells if cell.key == row.key)


def test_every_id_is_there_once_with_its_paper():
    assert set(tables()) == IDS and len(IDS) == 45
    assert {name: space.paper.source for name, space in tables().items()} == {n: SOURCES[n[0]] for n in IDS}


def test_every_row_average_is_the_mean_of_its_row_or_a_known_misprint():
    wrong, checked = {}, 0
    for name, row, average in printed():
        mean = fmean(row.cells[column] for column in average.of)
        checked += 1
        if abs(row.cells[average.column] - mean) > 0.5 * 10**-average.decimals + 1e-9:
            wrong[name, label_of(name, row)] = (row.cells[average.column], round(mean, 2))
    assert wrong == MISPRINTS and checked == 125
    kept = {(n, label_of(n, row)): row.recomputed for n, row, _ in printed() if row.recomputed}
    assert kept == {key: {"avg": right} for key, (_, right) in MISPRINTS.items()}


@pytest.mark.parametrize("size", ["base", "large"])
def test_seven_flows_make_an_average(size):
    paper = tables()["E2"].paper
    rows = [
        row for row in paper.rows if (row.key["method"], row.key["train.encoder"]) == ("flow", f"bert-{size}-uncased")
    ]
    values = {row.key["train.corpus"]: dict(row.cells) for row in rows}
    assert values.keys() == {f"target:{name}" for name in paper.average[0].of}
    assert all([corpus] == [f"target:{name}" for name in cells] for corpus, cells in values.items())
    printed = next(row.cells for row in paper.references if row.label.startswith(f"BERT {size}-flow"))
    assert printed == {"avg": round(fmean(value for cells in values.values() for value in cells.values()), 2)}


@pytest.mark.parametrize(("name", "label"), ROWS)
def test_a_row_of_every_main_table(name, label):
    space = tables()[name]
    cells = resolve(space, "paper").cells()
    key = next(c.key for c in cells if (c.label or " ".join(f"{k}={v}" for k, v in c.key.items())) == label)
    named = {k: v for k, v in key.items() if k not in space.settings}
    numbers = next(r.cells for r in space.paper.rows if {k: r.key[k] for k in named if k in r.key} == named == r.key)
    assert tuple(numbers[column] for column in space.paper.columns if column in numbers) == ROWS[name, label]


def test_declutr_s_averages_follow_from_its_tasks():
    paper = tables()["L5"].paper
    wanted = {row.name: row.cells for row in (*tables()["L1"].paper.rows, *tables()["L1"].paper.references)}
    for row in (*paper.rows, *paper.references):
        cells = dict(row.cells) | {"MRPC": fmean((row.cells["MRPC"], row.cells["MRPC_F1"]))}
        del cells["MRPC_F1"]
        values = list(cells.values())
        means = {"downstream": fmean(values[:18]), "probing": fmean(values[18:])}
        printed = wanted[row.name]
        assert {k: pytest.approx(v, abs=0.0101) for k, v in means.items()} == {k: printed[k] for k in means}, row.name


def test_errors_by_length_and_their_gap():
    cells = {row.key["method"]: row.cells for row in tables()["E1"].paper.rows}
    assert {m: (c["avg_far"], c["avg_near"], c["gap"]) for m, c in cells.items()} == {
        "simcse": (16.34, 18.18, 1.84), "esimcse": (21.67, 22.38, 0.71),
    }  # fmt: skip
    assert all(round(c["avg_near"] - c["avg_far"], 2) == c["gap"] for c in cells.values())


@pytest.mark.parametrize("name", ["S4", "L2", "L3", "L8"])
def test_a_figure_without_numbers_says_what_it_shows(name):
    paper = tables()[name].paper
    assert paper.rows == () and paper.finding and paper.default is not None


@pytest.mark.parametrize("name", SEARCHES)
def test_the_published_winner_lies_inside_its_search(name):
    space = load_space(name)
    assert space.search is not None or name == "d2cse_prompt_length"
    resolved = resolve(space, "paper")
    assert resolved.contains(space.paper.default)
    assert all(resolved.contains(row.key) for row in space.paper.rows)


def test_searches_of_the_papers_are_told_from_tables():
    assert {name for name, space in tables().items() if space.sampled} == {"D12", "C5"}


def test_the_winners_of_appendix_tables():
    rows = [tuple(row.key.values()) for row in tables()["D12"].paper.rows]
    assert rows == [
        ("bert-base-uncased", 64, 7e-6, 0.3, 0.005), ("roberta-base", 64, 1e-5, 0.2, 0.005),
        ("bert-base-uncased", 64, 2e-6, 0.15, 0.05), ("roberta-base", 128, 3e-6, 0.15, 0.05),
    ]  # fmt: skip
    rates = [row.key["train.learning_rate"] for row in tables()["C5"].paper.rows]
    assert rates == [0.021, 0.034, 0.044, 0.055, 0.024]


def runs(name):
    """Every cell's run at the paper's scale, as settings."""
    return [cell.run(0).flat() for cell in resolve(tables()[name], "paper").cells()]


def test_tables_share_the_runs_of_their_default_rows():
    diffcse, simcse, supervised = runs("D3")[1], runs("D3")[0], runs("S6")[0]
    assert (diffcse["method"], simcse["method"], supervised["method.objective"]) == ("diffcse", "simcse", "triplets")
    for name in ("D1", "D5", "D6", "D7", "D8", "D9", "D10", "C1", "C2", "C3"):
        assert runs(name).count(diffcse) == 1, name
    for name in ("S1", "S2", "S4", "S5", "S7", "S8", "D1", "D2", "D5", "D9", "D10", "D11", "E1", "E2", "E6", "E9"):
        assert runs(name).count(simcse) == 1, name
    for name in ("S7", "S9", "C3", "C6"):
        assert runs(name).count(supervised) == 1, name
    assert all(runs(name).count(runs("C4")[7]) == 1 for name in ("C1", "C2", "C3"))


def test_every_column_is_a_stored_name_or_the_paper_s_alone():
    for name, space in tables().items():
        stored = {column for suite in space.evaluate for column in columns(suite)}
        assert set(space.paper.scores.values()) <= stored, name
        assert columns_of(resolve(space, "paper")), name


def test_published_cells_of_trained_rows_have_a_scorer_but_for_absent_tasks():
    """COCO, which comes as pickled features of images, and SNLI are in the averages of L1, L6 and L7."""
    unscored = {}
    for name, space in tables().items():
        stored = {column for suite in space.evaluate for column in columns(suite)}
        for row in space.paper.rows:
            lacking = [column for column in row.cells if space.paper.scores.get(column, column) not in stored]
            unscored.update({name: [*unscored.get(name, []), *lacking]} if lacking else {})
    assert {name: sorted(set(lacking)) for name, lacking in unscored.items()} == {
        "L1": ["avg", "downstream"],
        "L5": ["COCO", "SNLI"],
        "L6": ["avg", "downstream"],
        "L7": ["downstream", "without_snli"],
    }
    assert sum(map(len, unscored.values())) == 32


@pytest.mark.parametrize(
    ("name", "label", "paper", "small"),
    [
        ("S8", "BERT base (first-last avg.)", "bert-base-uncased", "words-l4-h128"),
        ("S8", "RoBERTa base (first-last avg.)", "roberta-base", None),
        ("D10", "Avg. BERT base", "bert-base-uncased", "words-l4-h128"),
        ("L1", "Transformer-small", "distilroberta-base", "words-l2-h128"),
        ("L4", "ALBERT-base-V2-mean", "albert-base-v2", None),
        ("L6", "RoBERTa-large, before", "roberta-large", None),
        ("L5", "fastText", "crawl-300d-2M", "crawl-300d-2M"),
    ],
)
def test_a_profile_replaces_the_encoder_of_a_model_that_nobody_trains(name, label, paper, small):
    models = {profile: resolve(tables()[name], profile).evaluated()[label] for profile in ("paper", "small")}
    assert {profile: model and model.name for profile, model in models.items()} == {"paper": paper, "small": small}
    assert {model.key[1] for model in models.values() if model} <= {"mean", "first_last"}


def test_models_that_nobody_trains_are_scored_by_the_suites_of_their_columns():
    wanted = {
        "S8": ("sts",),
        "D2": ("transfer",),
        "D10": ("geometry", "sts"),
        "L1": ("senteval", "probing"),
        "L4": ("probing_dev",),
        "L6": ("senteval_dev", "probing_dev"),
    }
    assert {name: resolve(tables()[name], "paper").suites() for name in wanted} == wanted
    (row,) = (row for row in tables()["L1"].paper.references if row.label == "GloVe")
    assert tables()["L1"].paper.suites_of(row, ("senteval", "probing")) == {"probing": "probing"}


def test_the_grid_of_declutr_s_sampling_leaves_out_what_its_authors_could_not_train():
    """Figure 2: two sizes, A in {1, 2}, P in {1, 2, 4} but 4 of base, three strategies, two temperatures."""
    cells = [cell.run(0) for cell in resolve(tables()["L2"], "paper").cells()]
    grid = {
        (run.train.encoder, o.anchors, o.positives, o.strategy, o.temperature) for run in cells if (o := run.options)
    }
    sizes = {"distilroberta-base": (1, 2, 4), "roberta-base": (1, 2)}
    assert len(cells) == len(grid) == 60
    assert grid == {
        (encoder, anchors, positives, strategy, temperature)
        for encoder, counts in sizes.items()
        for anchors, positives, strategy, temperature in itertools.product(
            (1, 2), counts, ("both", "adjacent", "subsuming"), (5e-4, 5e-2)
        )
    }
    for name in ("L2", "L3", "L8"):
        assert columns_of(resolve(tables()[name], "paper"))[0] == "senteval_dev", name


def test_searches_cover_the_methods_knobs():
    wanted = {
        "esimcse": {"method.dup_rate", "method.queue_multiple"},
        "diffcse": {"method.masking_ratio", "method.lambda_weight", "method.generator"},
        "d2cse": {"method.prompt_length", "method.lambda_weight"},
        "dcpcse": {"method.prompt_length"},
    }
    for name, knobs in wanted.items():
        assert knobs | {"train.learning_rate"} <= set(load_space(name).axes)
    assert set(SEARCHES) <= set(catalog())


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
