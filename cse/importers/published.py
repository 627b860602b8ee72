"""`cse import --as S8 --row LABEL`: takes runs of other code as seeds of one row of a paper's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.answers.build import scale_of
from analysis.answers.imported import plain_name
from analysis.tables.labels import some
from cse.importers import DeclaredMetric, ForeignRun
from cse.importers.seeds import cell_of
from cse_train.fields import ConfigError, Scalar
from search_spaces.catalog import load_space
from search_spaces.cell_names import choose
from search_spaces.cells import PAPER_PROFILE, Cell, ResolvedSpace, resolve
from search_spaces.paper import Paper

ALIASES: Mapping[str, Sequence[str]] = {
    "sts_test": ("stsb", "stsbenchmark", "stsbtest"),
    "sickr_test": ("sick", "sickr", "sickrelatedness", "sickrtest"),
    "sts": ("avg", "average", "avgsts"),
    "sts_dev": ("dev", "stsbdev", "devstsb", "beststsb", "evalstsbspearman"),
}
"""Suite -> its names in other tools, in lower-case letters and digits."""
UNNAMED = "imported"
"""Suffix, after the table's ID, of a sweep's name that the user left out."""
SHARE = 1.0
"""Bound for shares: if all imported values lie below it and the paper's above MOST_SHARE, their units differ."""
MOST_SHARE = 1.5


@dataclass(frozen=True)
class TableRow:
    """A row of a published table, at the paper's own scale."""

    resolved: ResolvedSpace
    paper: Paper
    cell: Cell

    @property
    def dev(self) -> str:
        """Returns the dev set by which the paper's checkpoints are picked."""
        return str(self.cell.flat["train.dev"])

    @property
    def suites(self) -> dict[str, str]:
        """Returns column of the table -> suite under which the ledger stores its scores."""
        return {column: self.paper.scores.get(column, column) for column in self.paper.columns}

    def spec(self) -> dict[str, object]:
        """Returns the description that the sweep of imported runs takes from the table."""
        space = self.resolved.space
        return {"title": space.title, "space": space.id, "file": str(space.file), "profile": PAPER_PROFILE, "set": {}}

    def columns_of(self, runs: Sequence[ForeignRun], assigned: Mapping[str, str], score: str | None) -> dict[str, str]:
        """Returns number's name in the file -> suite that it is.

        `assigned`: names that the user gives to columns. `score`: the file's name of the dev score. Raises ConfigError
        where the file has no column of the table, and where two of its numbers are one suite.
        """
        names = dict.fromkeys(name for run in runs for name in run.metrics)
        targets = {**self.suites, self.dev: self.dev}
        by_word = {plain_name(word): suite for column, suite in targets.items() for word in (column, suite)}
        by_word |= {word: suite for suite in targets.values() for word in ALIASES.get(suite, ())}
        declared = {name: targets.get(key, key) for name, key in assigned.items()}
        declared |= {score: self.dev} if score else {}
        suites_found = {name: declared.get(name) or by_word.get(plain_name(name)) for name in names}
        columns = {name: suite for name, suite in suites_found.items() if suite is not None}
        repeated = [suite for suite in columns.values() if list(columns.values()).count(suite) > 1]
        if repeated:
            names_text = " and ".join(name for name, suite in columns.items() if suite == repeated[0])
            raise ConfigError(
                [f"two metrics of one name: {names_text} are both {repeated[0]}; take one out of the file"]
            )
        if not set(columns.values()) & set(self.suites.values()):
            columns_text = some(list(names), len(self.suites)) or "no column of numbers"
            advice = f"--rename NAME=COLUMN with one of {', '.join(self.suites)}"
            raise ConfigError([f"no column of {self.resolved.space.id}: the file has {columns_text}; give {advice}"])
        return columns

    def settle(self, runs: Sequence[ForeignRun]) -> list[ForeignRun]:
        """Returns the runs with the row's settings and their own seeds.

        Raises ConfigError for runs of several configurations, and for values in another unit than the paper's.
        """
        cells = [cell_of(run) for run in runs]
        names = dict.fromkeys(name for cell in cells for name in cell)
        varied = [name for name in names if len({repr(cell.get(name)) for cell in cells}) > 1]
        if varied:
            line = f"several configurations: runs of one row differ in {', '.join(varied)}"
            raise ConfigError([f"{line}; give a file for each, or --seed NAME where that is the seed"])
        printed = next((row.cells for row in self.paper.rows if dict(row.key) == dict(self.cell.key)), {})
        for column, suite in self.suites.items():
            values = [abs(run.metrics[suite]) for run in runs if suite in run.metrics]
            if values and max(values) < SHARE and abs(printed.get(column, 0.0)) > MOST_SHARE:
                line = f"another unit: {column}={max(values):g} at most, and the paper prints {printed[column]:g}"
                raise ConfigError([f"{line}; write the file in the paper's unit"])
        return [replace(run, settings={**run.settings, **self.settings()}) for run in runs]

    def settings(self) -> dict[str, Scalar]:
        """Returns the settings that every run of the row has."""
        return {"method": str(self.cell.settings["method"]), **self.cell.key}

    def metrics(self, columns: Mapping[str, str], runs: Sequence[ForeignRun]) -> list[DeclaredMetric]:
        """Returns the table's columns that the runs have, as declared metrics."""
        declared = []
        for suite in (suite for suite in self.suites.values() if suite in columns.values()):
            scale = scale_of(suite, [run.metrics[suite] for run in runs if suite in run.metrics])
            declared.append(DeclaredMetric(suite, scale.better, scale.span))
        return declared


def find_row(table: str, label: str) -> TableRow:
    """Returns the row of a table (shipped ID or space file) that a label or settings name; ConfigError for none."""
    space = load_space(table.partition("@")[0])
    if space.paper is None:
        raise ConfigError([f"no published table: --as {table} with --row; name one of cse ls, such as S8"])
    resolved = resolve(space, PAPER_PROFILE)
    matches = [cell for cell in resolved.rows() if cell.label and plain_name(cell.label) == plain_name(label)]
    cell = matches[0] if len(matches) == 1 else choose(resolved, [label], resolved.rows(), before="--row ")
    if not any(dict(row.key) == dict(cell.key) and row.cells for row in space.paper.rows):
        raise ConfigError([f"nothing published: --row {label} of {space.id}; name a row with numbers of the paper's"])
    return TableRow(resolved, space.paper, cell)
