"""The published tables as files: whole rows that re-add, misprints kept, winners inside their searches."""

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
