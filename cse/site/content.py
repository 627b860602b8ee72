"""Data model of the site: tables, and the scales at which each was run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from analysis.answers.judge import Verdicts
from analysis.answers.paper_scale import Unlike
from analysis.render.signs import GLYPHS, TONES
from analysis.report.facts import folder_name, slug
from analysis.study.study import Member, Spent, Study
from analysis.tables.aggregate import Row, Table
from analysis.tables.labels import label
from analysis.tables.ordering import Ordering
from analysis.tables.results import drop_part
from analysis.tables.spec import identify


class SheetState(StrEnum):
    """Progress of a table; `text` describes it in a sentence."""

    DONE = "done"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    NOT_RUN = "not run"

    @property
    def text(self) -> str:
        return SHEET_TEXTS[self]


SHEET_TEXTS: Mapping[SheetState, str] = {
    SheetState.DONE: "every run that the table asks for has a result",
    SheetState.PARTIAL: "some runs have a result",
    SheetState.BLOCKED: "no row can be trained with the inputs that every user has",
    SheetState.NOT_RUN: "nobody has trained a row yet",
}
DECIDED = ("good", "bad")
"""Tones of verdicts that contradict each other."""
NOT_COMPARED = ("not run", "reference")
UNDECIDED = (*NOT_COMPARED, "undecided", "no signal", "one seed could give it")
"""Verdicts that do not decide whether a published value holds."""
RowId = tuple[Any, ...]
"""Hashable identifier of a table row, made from its key by `identify`."""


@dataclass(frozen=True)
class Scale:
    """Results of a table at one scale, that is, with one profile and settings."""

    name: str
    """Name of the scale: its profile, and settings given in addition."""
    table: Table
    study: Study
    spent: Spent
    unlike: Unlike
    """Settings in which the runs differ from the paper's; empty at the paper's own scale."""
    title: str
    """Name of the scale for people."""
    files: Mapping[str, str]
    """Format, such as csv -> the table in that format."""
    verdicts: Verdicts = field(default_factory=dict)
    ordering: Sequence[Ordering] = ()
    headline: str = ""
    commands: Mapping[RowId, Sequence[str]] = field(default_factory=dict)
    """Row -> commands that train it again; several if its columns come from different runs."""

    @property
    def file(self) -> str:
        """Returns the scale's name for files and anchors."""
        return folder_name(self.name)

    @property
    def same(self) -> bool:
        """True at the paper's own scale."""
        return not self.unlike

    @property
    def seeds(self) -> int:
        """Returns the largest number of seeds of any cell at this scale."""
        return max((len(runs) for runs in self.study.cells.values()), default=0)

    @property
    def compared(self) -> int:
        """Returns how many measured values are compared with the paper's."""
        return sum(verdict.word not in NOT_COMPARED for verdict in self.verdicts.values())

    @property
    def decided(self) -> int:
        """Returns how many measured values have a verdict that decides."""
        return sum(verdict.word not in UNDECIDED for verdict in self.verdicts.values())

    @property
    def rank(self) -> tuple[Any, ...]:
        """Returns a sort key; scales with more decided values, more signal and larger runs rank higher."""
        verdict_words = {verdict.word for verdict in self.verdicts.values()}
        return self.decided, "undecided" in verdict_words, self.compared > 0, self.size, self.same

    @property
    def size(self) -> tuple[float, float]:
        """Returns training examples, and seconds, of a mean run at this scale."""
        runs = len(self.study.finished)
        examples = sum(run.examples or 0 for _, run in self.study.finished)
        return examples / max(1, runs), self.spent.seconds / max(1, self.spent.runs)

    @cached_property
    def _members(self) -> Mapping[RowId, Sequence[Member]]:
        members: dict[RowId, list[Member]] = {}
        for member in sorted(self.study.members, key=lambda member: (member.seed, member.cell)):
            members.setdefault(identify(drop_part(member.key)), []).append(member)
        return members

    def members(self, row: Row) -> Sequence[Member]:
        """Returns the runs of a row, by seed."""
        return self._members.get(identify(row.key), ())

    def anchor(self, row: int, column: str) -> str:
        """Returns the anchor of the runs behind an entry, on the table's page."""
        return f"{self.file}-{row + 1}-{slug(column)}"


@dataclass(frozen=True)
class Sheet:
    """One table of the site: a card on the overview and a page."""

    id: str
    title: str
    state: SheetState
    layout: Table
    """Rows and columns as the paper prints them, without measured values."""
    citation: str = ""
    """Citation of the paper; "" for a space that prints no paper's table."""
    where: str = ""
    """Number or name of the table in the paper."""
    source: str = ""
    """Where the table's paper is available, such as an arXiv number."""
    metric: str = ""
    methods: Sequence[str] = ()
    suites: Sequence[str] = ()
    unrun: Verdicts = field(default_factory=dict)
    """Verdicts of the layout, in which nothing has been run."""
    printed: Sequence[RowId] = ()
    """Rows in the paper's order; empty for a search, whose best cells come first."""
    names: Mapping[RowId, str] = field(default_factory=dict)
    """Row -> its name in the paper, for rows that have one."""
    scales: Sequence[Scale] = ()
    """Scales at which the table was run, the one with most decided values first."""
    lacking: Sequence[str] = ()
    """Lines on inputs that cells of the table lack."""

    @property
    def file(self) -> str:
        """Returns the name of the table's page, without suffix."""
        return folder_name(self.id)

    @property
    def main(self) -> Scale | None:
        return self.scales[0] if self.scales else None

    @property
    def verdicts(self) -> Verdicts:
        """Returns the verdicts that the overview counts: those of the main scale."""
        return self.main.verdicts if self.main else self.unrun

    @property
    def contradictions(self) -> list[str]:
        """Returns a line for each value that holds at one scale and not at another."""
        words_by_tone: dict[tuple[RowId, str], dict[str, str]] = {}
        names: dict[RowId, str] = {}
        for scale in self.scales:
            for (index, column), verdict in scale.verdicts.items():
                colour, row = tone(verdict.word), scale.table.rows[index]
                if colour in DECIDED:
                    names[identify(row.key)] = self.row_name(row)
                    words_by_tone.setdefault((identify(row.key), column), {}).setdefault(
                        colour, f"{verdict.word} at {scale.title}"
                    )
        return [
            f"{names[row]}, {column}: {', but '.join(tones.values())}"
            for (row, column), tones in words_by_tone.items()
            if len(tones) == len(DECIDED)
        ]

    def download(self, scale: Scale, suffix: str) -> str:
        """Returns the file name of a scale's table in one format, beside the page."""
        return f"{self.file}-{scale.file}.{suffix}"

    def order(self, table: Table) -> list[int]:
        """Returns a table's row indices in the paper's order; rows that the paper does not print come last."""
        places = {row: place for place, row in enumerate(self.printed)}
        rows = [places.get(identify(row.key), len(places)) for row in table.rows]
        return sorted(range(len(rows)), key=lambda index: (rows[index], index))

    def row_name(self, row: Row) -> str:
        """Returns the paper's name of a row, else its settings."""
        return self.names.get(identify(row.key)) or label(row.key, self.layout.named)


@dataclass(frozen=True)
class Site:
    """All tables of the site; a paper's tables are in the order of their IDs."""

    sheets: Sequence[Sheet]
    sources: Sequence[str]
    """Names of the bundles, or of the ledger, from which the site was made."""

    @property
    def published(self) -> list[Sheet]:
        return [sheet for sheet in self.sheets if sheet.citation]

    @property
    def listed(self) -> list[Sheet]:
        """Returns all tables in the order of the overview, paper by paper."""
        return [sheet for sheets in (*self.papers.values(), self.ours) for sheet in sheets]

    @property
    def ours(self) -> list[Sheet]:
        """Returns tables of spaces that print no paper's table."""
        return [sheet for sheet in self.sheets if not sheet.citation]

    @property
    def papers(self) -> dict[str, list[Sheet]]:
        """Returns citation -> its tables; papers with most decided values first, ties by arXiv number."""
        papers: dict[str, list[Sheet]] = {}
        for sheet in self.published:
            papers.setdefault(sheet.citation, []).append(sheet)

        def rank(citation: str) -> tuple[int, str]:
            decided = sum(scale.decided for sheet in papers[citation] for scale in sheet.scales)
            return -decided, papers[citation][0].source.rpartition(" ")[2]

        return {citation: papers[citation] for citation in sorted(papers, key=rank)}


def tone(word: str) -> str:
    """Returns the tone (colour class) of a verdict; "" for a value that was not run."""
    return "" if word == "not run" else TONES.get(word, "")


def counts(sheets: Sequence[Sheet]) -> dict[str, int]:
    """Returns verdict -> how often it occurs in the tables, in the order of the glyphs; unused verdicts are
    left out."""
    words = Counter[str](verdict.word for sheet in sheets for verdict in sheet.verdicts.values())
    return {word: words[word] for word in GLYPHS if words[word]}
