"""`--as S8 --row LABEL`: runs of others' code as seeds of a row of a paper's table, at the paper's own scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.answers.build import scale_of
from analysis.answers.imported.cells import plain_name
from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.metrics import Asked
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
"""Suite -> what others call it, in small letters and digits."""
UNNAMED = "imported"
"""Stands behind the table's ID in the name of a sweep that nobody named."""
SHARE = 1.0
"""Values that all lie below it are shares; a paper's that is above MOST_SHARE is none."""
MOST_SHARE = 1.5


@dataclass(frozen=True)
class TableRow:
    """A row of a published table."""

    resolved: ResolvedSpace
    paper: Paper
    cell: Cell

    @property
    def dev(self) -> str:
        """The dev set by which the paper's runs are picked."""
        return str(self.cell.flat["train.dev"])

    @property
    def suites(self) -> dict[str, str]:
        """Column of the table -> the suite under which the ledger keeps it."""
        return {column: self.paper.scores.get(column, column) for column in self.paper.columns}

    def spec(self) -> dict[str, object]:
        """What the sweep's description says of the table."""
        space = self.resolved.space
        return {"title": space.title, "space": space.id, "file": str(space.file), "profile": PAPER_PROFILE, "set": {}}

    def columns_of(self, runs: Sequence[ForeignRun], given: Mapping[str, str], score: str | None) -> dict[str, str]:
        """The file's name of a number -> the suite that it is. `given`: names that a person gives to columns;
        `score`: the file's name of the dev score. ConfigError where no column of the table is there."""
        names = dict.fromkeys(name for run in runs for name in run.metrics)
        wanted = {**self.suites, self.dev: self.dev}
        by_word = {plain_name(word): suite for column, suite in wanted.items() for word in (column, suite)}
        by_word |= {word: suite for suite in wanted.values() for word in ALIASES.get(suite, ())}
        said = {name: wanted.get(key, key) for name, key in given.items()}
        said |= {score: self.dev} if score else {}
        suites_found = {name: said.get(name) or by_word.get(plain_name(name)) for name in names}
        columns = {name: suite for name, suite in suites_found.items() if suite is not None}
        twice = [suite for suite in columns.values() if list(columns.values()).count(suite) > 1]
        if twice:
            both = " and ".join(name for name, suite in columns.items() if suite == twice[0])
            raise ConfigError([f"two metrics of one name: {both} are both {twice[0]}; take one out of the file"])
        if not set(columns.values()) & set(self.suites.values()):
            have = some(list(names), len(self.suites)) or "no column of numbers"
            how = f"--rename NAME=COLUMN with one of {', '.join(self.suites)}"
            raise ConfigError([f"no column of {self.resolved.space.id}: the file has {have}; give {how}"])
        return columns

    def place(self, runs: Sequence[ForeignRun], columns: Mapping[str, str]) -> list[ForeignRun]:
        """The runs with suites for the names of their metrics."""
        named = ({columns.get(name, name): value for name, value in run.metrics.items()} for run in runs)
        return [replace(run, metrics=metrics) for run, metrics in zip(runs, named, strict=True)]

    def settle(self, runs: Sequence[ForeignRun]) -> list[ForeignRun]:
        """The runs with the row's settings, seeds as they have them. ConfigError for several configurations, and for
        values in another unit than the paper's."""
        cells = [cell_of(run) for run in runs]
        names = dict.fromkeys(name for cell in cells for name in cell)
        varied = [name for name in names if len({repr(cell.get(name)) for cell in cells}) > 1]
        if varied:
            line = f"several configurations: runs of one row differ in {', '.join(varied)}"
            raise ConfigError([f"{line}; give a file for each, or --seed NAME where that is the seed"])
        self._require_unit(runs)
        return [replace(run, settings={**run.settings, **self.settings()}) for run in runs]

    def settings(self) -> dict[str, Scalar]:
        """What each of its runs has."""
        return {"method": str(self.cell.settings["method"]), **self.cell.key}

    def _require_unit(self, runs: Sequence[ForeignRun]) -> None:
        printed = next((row.cells for row in self.paper.rows if dict(row.key) == dict(self.cell.key)), {})
        for column, suite in self.suites.items():
            values = [abs(run.metrics[suite]) for run in runs if suite in run.metrics]
            if values and max(values) < SHARE and abs(printed.get(column, 0.0)) > MOST_SHARE:
                line = f"another unit: {column}={max(values):g} at most, and the paper prints {printed[column]:g}"
                raise ConfigError([f"{line}; write the file in the paper's unit"])

    def metrics(self, columns: Mapping[str, str], runs: Sequence[ForeignRun]) -> list[Asked]:
        """The table's columns that the runs have."""
        suites = [suite for suite in self.suites.values() if suite in columns.values()]
        scales = {
            suite: scale_of(suite, [run.metrics[suite] for run in runs if suite in run.metrics]) for suite in suites
        }
        return [Asked(suite, scales[suite].better, scales[suite].span) for suite in suites]


def find_row(table: str, label: str) -> TableRow:
    """The row of a shipped table, or of a space's file, that a label or its settings name; ConfigError for none."""
    space = load_space(table.partition("@")[0])
    if space.paper is None:
        raise ConfigError([f"no published table: --as {table} with --row; name one of cse ls, such as S8"])
    resolved = resolve(space, PAPER_PROFILE)
    named = [cell for cell in resolved.rows() if cell.label and plain_name(cell.label) == plain_name(label)]
    cell = named[0] if len(named) == 1 else choose(resolved, [label], resolved.rows(), before="--row ")
    if not any(dict(row.key) == dict(cell.key) and row.cells for row in space.paper.rows):
        raise ConfigError([f"nothing published: --row {label} of {space.id}; name a row with numbers of the paper's"])
    return TableRow(resolved, space.paper, cell)
