"""Every printed number is counted once, with its reason; what two machines scored without training is one row."""

from pathlib import Path

import pytest

from analysis.answers.baselines import read_stored
from analysis.answers.coverage import (
    COUNTED_WORDS,
    LEFT_OUT,
    NO_SUITE,
    NOT_OURS,
    REFERENCE_ALONE,
    STATES,
    TRAINED,
    UNSCORED,
    WITHOUT_INPUT,
    WITHOUT_TRAINING,
    count_states,
    list_printed,
)
from analysis.ledger import Baselines, Ledger
from docs.coverage_page import values_of
from search_spaces.catalog import ALL, load_all, load_space
from search_spaces.cells import resolve, setups
from search_spaces.parse import parse_file

TABLE = """
version: 1
id: T
method: simcse
evaluate: [{suites}]
cells:
  - {{label: "base", set: {{train.encoder: bert-base-uncased}}}}
  - {{label: "large", set: {{train.encoder: bert-large-uncased}}}}
paper:
  citation: c
  table: t
  source: s
  metric: m
  columns: [sts_dev, sts12, haiku, mr]
  unscored: {{haiku: "nobody counts syllables"}}
  rows:
    - {{key: {{train.encoder: bert-base-uncased}}, cells: {{sts_dev: 1.0, sts12: 2.0, haiku: 3.0}}}}
    - {{key: {{train.encoder: bert-large-uncased}}, cells: {{sts_dev: 4.0}}}}
  references:
    - {{label: "GloVe", evaluated: {{vectors: glove.840B.300d}}, cells: {{sts12: 5.0, haiku: 6.0}}}}
    - {{label: "RoBERTa", evaluated: {{encoder: roberta-base, pooler: mean}}, cells: {{sts12: 5.5, mr: 6.5}}}}
    - {{label: "Other", cells: {{sts12: 7.0}}}}
    - {{label: "Old", reason: "its weights are lost", cells: {{sts12: 8.0}}}}
"""


def states(folder: Path, profile: str, suites: str = "sts_dev, sts12", **absent: dict[str, str]):
    """(row, column) -> (state, reason)."""
    (folder / "t.yaml").write_text(TABLE.format(suites=suites))
    values = list_printed(resolve(parse_file(folder / "t.yaml"), profile), **absent)
    return {(value.row, value.column): (value.state, value.reason) for value in values}


def test_each_printed_number_has_the_state_that_its_row_and_column_give_it(tmp_path: Path) -> None:
    assert states(tmp_path, "paper") == {
        ("base", "sts_dev"): (TRAINED, ""),
        ("base", "sts12"): (TRAINED, ""),
        ("base", "haiku"): (UNSCORED, "nobody counts syllables"),
        ("large", "sts_dev"): (TRAINED, ""),
        ("GloVe", "sts12"): (WITHOUT_TRAINING, ""),
        ("GloVe", "haiku"): (UNSCORED, "nobody counts syllables"),
        ("RoBERTa", "sts12"): (WITHOUT_TRAINING, ""),
        ("RoBERTa", "mr"): (WITHOUT_TRAINING, ""),
        ("Other", "sts12"): (REFERENCE_ALONE, NOT_OURS),
        ("Old", "sts12"): (REFERENCE_ALONE, "its weights are lost"),
    }


def test_a_column_counts_as_soon_as_a_suite_of_the_table_scores_it(tmp_path: Path) -> None:
    """The dev set is scored in any case."""
    without, with_it = (states(tmp_path, "paper", suites) for suites in ("sts_dev", "sts_dev, sts12"))
    assert without["base", "sts12"] == (UNSCORED, NO_SUITE) and with_it["base", "sts12"] == (TRAINED, "")
    assert states(tmp_path, "paper", "sts12")["base", "sts_dev"] == (TRAINED, "")


def test_a_row_that_the_profile_leaves_out_is_not_compared(tmp_path: Path) -> None:
    found = states(tmp_path, "small")
    assert found["base", "sts_dev"] == (TRAINED, "")
    assert {state for (row, _), (state, _) in found.items() if "large" in row or row == "RoBERTa"} == {LEFT_OUT}


def test_what_lacks_an_input_says_which(tmp_path: Path) -> None:
    cell = states(tmp_path, "paper", lacking={"large": "no encoder"})
    assert cell["large", "sts_dev"] == (WITHOUT_INPUT, "no encoder") and cell["base", "sts_dev"] == (TRAINED, "")
    suite = states(tmp_path, "paper", unscorable={"sts12": "no file"})
    assert suite["base", "sts12"] == suite["GloVe", "sts12"] == (WITHOUT_INPUT, "no file")
    assert suite["base", "haiku"][0] == UNSCORED and suite["RoBERTa", "mr"] == (WITHOUT_TRAINING, "")
    model = states(tmp_path, "paper", unevaluated={"GloVe": "no vectors"})
    assert model["GloVe", "sts12"] == (WITHOUT_INPUT, "no vectors") and model["GloVe", "haiku"][0] == UNSCORED


@pytest.fixture(scope="module")
def shipped_values():
    return [value for space in load_all([ALL]) for value in values_of(resolve(space, "paper"))]


def test_every_number_of_the_papers_is_counted_once(shipped_values) -> None:
    """1,421 numbers in rows, of which 659 were cells that some suite scored when they were first counted by hand."""
    counts = count_states(shipped_values)
    assert counts["published"] == sum(counts[state] for state in STATES) == 1421
    assert counts[TRAINED] + counts[WITHOUT_INPUT] >= 659
    places = [(value.table, value.row, value.column) for value in shipped_values]
    assert len(set(places)) == len(places)


def test_every_number_without_a_run_has_a_reason(shipped_values) -> None:
    assert [value for value in shipped_values if (value.state in COUNTED_WORDS) == bool(value.reason)] == []


def test_every_model_that_the_papers_print_untrained_is_scored(shipped_values) -> None:
    """90 values of averaged word vectors and 117 of pretrained encoders, counted by hand in the papers' tables."""
    assert count_states(shipped_values)[WITHOUT_TRAINING] == 90 + 117


@pytest.mark.parametrize(("cls", "rows"), [(65.693875, 1), (65.70, 2)])
def test_s7_of_two_corpora(cls: float, rows: int, tmp_path: Path) -> None:
    """The difference is that of two CPUs, where cosines of two pairs nearly tie; 0.006 shows in print."""
    resolved = resolve(load_space("S7"), "tiny")
    ledger = Ledger.open(tmp_path / "lab.db", create=True)
    both = {setup["train.corpus"]: setup for setup in setups(resolved)}
    for corpus, value, idf in (("wiki", 65.694007, 75.16), ("nli", cls, 75.34)):
        setup = both[corpus]
        key = ("sts_dev", str(setup["train.encoder"]), corpus, int(setup["train.dev_max_length"]))
        ledger.store_baselines([Baselines(*key, {}, {"untrained [CLS]": value, "idf bag of words": idf})])
    names = [row.label for row in read_stored(setups(resolved), ["sts_dev"], ledger)]
    shown = {1: ["untrained [CLS]"], 2: ["untrained [CLS], wiki", "untrained [CLS], nli"]}
    assert names == [*shown[rows], "idf bag of words, wiki", "idf bag of words, nli"]
