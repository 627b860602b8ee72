"""docs/coverage.md from the papers' tables and the suites at hand: `python -m docs.coverage_page` writes it."""

from collections.abc import Sequence

from analysis.answers.coverage import STATES, UNSCORED, PrintedValue, count_states, group_by_reason, list_printed
from analysis.render.markup import align_table
from docs.methods_page import folder
from search_spaces.catalog import ALL, load_all
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace, resolve, some_cells
from search_spaces.identity.missing_inputs import STANDARD_CORPORA, source_of

HEAD = """\
# Which published numbers can be compared?

Every number that the five papers print in a table, at `--profile paper`. A number is compared where a suite of its
table scores its column and its row is a cell that we train, or a model that `cse reproduce` scores as it is; the others
stand beside ours as the paper's alone.
`cse plan all --profile paper` counts the same on your machine, where other inputs may be absent. Made by
`python -m docs.coverage_page` from `search_spaces/papers/` and the suites.
"""
LEGEND = """
| state | what it means |
|---|---|
| trained and scored | the row is a cell, and a suite of its table scores the column |
| scored without training | the row is a pretrained encoder or an average of word vectors; a suite scores the column |
| without an input | the row is a cell whose training text is not part of the data that `--data` usually holds |
| left out | the profile has no counterpart for the row |
| without a suite | nothing of ours scores the column |
| reference | the row is a system that none of our methods trains |
"""
NOT_COVERED = """\
## Where the paper profile differs from a release

Every setting that profile `paper` has is the paper's or its release's, with its source beside it, but for these:

- Dev evaluations, of which the best checkpoint is kept. The profile makes 125 for each system that a dev set picks, so
  that no system chooses among more than another. Releases make 31 (IS-BERT), 46 (ConSERT, which stops after 10 without
  a better one), 10 (CT), 21 (SG-OPT, which stops early) and 31 (PromptBERT). `train.evaluations` sets them, and no
  method stops early here.
- ConSERT's release multiplies its loss by 0.3, before gradients are clipped and meet Adam's epsilon; the paper does not
  say so. `method.loss_factor=0.3` does the same.
- SBERT's classifier W_t is trained, as its paper's equation 1 asks; the `fit` of sentence-transformers v0.2.0, of the
  paper's month, leaves it as it was drawn. `method.classifier=fixed` does the same.

## Figures and tables without a file

They print no score, and nothing is trained for them:

- SimCSE, the plot of alignment and uniformity of finished models: its values are drawn only. S4 has both values of our
  runs, C3 and D10 print them for four of the models.
- SimCSE, the example pairs of ParaNMT-50M: sentences of a data set. S5 has the scores of training on it.
- SimCSE, the case study of Flickr30k: three neighbours of two queries under SBERT and supervised SimCSE.
  `cse eval --query TEXT` lists the neighbours of a sentence under a run.
- DeCLUTR, Table S2: examples of anchors, positives and negatives. `tests/cse_train/text/test_spans.py` tests the rule.
"""
OTHERS = (*STANDARD_CORPORA, "file")
"""Beginnings of the corpora that `--data` or `--train-file` gives; pairs:NAME is none of them."""


def values_of(resolved: ResolvedSpace) -> list[PrintedValue]:
    """The printed values of one table; a cell lacks an input where its corpus is none that every user has."""
    return list(list_printed(resolved, _lacking(resolved)))


def text() -> str:
    """The published file's content."""
    spaces = sorted(load_all([ALL]), key=lambda space: ("SDECL".index(space.id[0]), int(space.id[1:])))
    tables = {space.id: values_of(resolve(space, "paper")) for space in spaces}
    every = [value for values in tables.values() for value in values]
    lines = [[name, *map(str, count_states(values).values())] for name, values in {**tables, "all": every}.items()]
    counts = align_table(["table", "published", *STATES], lines, 1)
    groups = group_by_reason(every).items()
    reasons = [f"- {state}, {len(group)}: {reason}. {_listed(group)}." for (state, reason), group in groups]
    return "\n".join([HEAD, counts, LEGEND, "## Why a number is not compared\n", *reasons, "", NOT_COVERED])


def _listed(group: Sequence[PrintedValue]) -> str:
    """Rows by table; where no suite scores them, columns."""
    by_table: dict[str, dict[str, None]] = {}
    for value in group:
        by_table.setdefault(value.table, {})[value.column if value.state == UNSCORED else value.row] = None
    return "; ".join(f"{table}: {', '.join(names)}" for table, names in by_table.items())


def _lacking(resolved: ResolvedSpace) -> dict[str, str]:
    runs = {cell.label or cell_name(cell.key): cell.run(0) for cell in some_cells(resolved)}
    corpora = {name: run.train.corpus for name, run in runs.items() if not run.train.corpus.startswith(OTHERS)}
    return {name: f"pairs/NAME.csv is to be made from {source_of(corpus)}" for name, corpus in corpora.items()}


if __name__ == "__main__":
    (folder() / "coverage.md").write_text(text(), encoding="utf-8")
