"""What the site shows, as data: every table with the scales at which it was run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from analysis.answers.paper_scale import Unlike
from analysis.render.signs import GLYPHS, TONES
from analysis.report.facts import folder_name
from analysis.study.cost import Spent
from analysis.study.study import Member, Study
from analysis.tables.aggregate import Row, Table
from analysis.tables.labels import label
from analysis.tables.ordering import Ordering
from analysis.tables.results import drop_part
from analysis.tables.spec import identify
from analysis.tables.verdict import Verdicts


class SheetState(StrEnum):
    """How far a table is; `text` says it in a sentence."""

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
UNDECIDED = (*NOT_COMPARED, "undecided", "no signal")
"""Words that decide nothing."""
RowId = tuple[Any, ...]
"""`identify` of a row's key."""


@dataclass(frozen=True)
class Scale:
    """A table as it was run at one scale."""

    name: str
    """The profile, and settings that were given beside it."""
    table: Table
    verdicts: Verdicts
    ordering: Sequence[Ordering]
    study: Study
    spent: Spent
    unlike: Unlike
    """Settings in which the runs are not the paper's; none at the paper's own scale."""
    title: str
    """The name in people's words."""
    headline: str
    commands: Mapping[RowId, Sequence[str]]
    """Of each row, what trains it again; several where columns stand on runs of their own."""
    files: Mapping[str, str]
    """Suffix -> the table in that format."""

    @property
    def file(self) -> str:
        """The name in files and anchors."""
        return folder_name(self.name)

    @property
    def same(self) -> bool:
        """Whether it is the paper's own scale."""
        return not self.unlike

    @property
    def seeds(self) -> int:
        """The most seeds of one cell."""
        return max((len(runs) for runs in self.study.cells.values()), default=0)

    @property
    def compared(self) -> int:
        """Values of ours that are compared with the paper's."""
        return sum(verdict.word not in NOT_COMPARED for verdict in self.verdicts.values())

    @property
    def decided(self) -> int:
        """Values with a word that decides."""
        return sum(verdict.word not in UNDECIDED for verdict in self.verdicts.values())

    @property
    def rank(self) -> tuple[Any, ...]:
        """The higher, the more it says: the values that it decides, whether any has signal, then its size."""
        said = {verdict.word for verdict in self.verdicts.values()}
        return self.decided, "undecided" in said, self.compared > 0, self.size, self.same

    @property
    def size(self) -> tuple[float, float]:
        """What a run of it takes: training examples, and where scales have the same, seconds."""
        runs = len(self.study.finished)
        examples = sum(run.examples or 0 for _, run in self.study.finished)
        return examples / max(1, runs), self.spent.seconds / max(1, self.spent.runs)

    @cached_property
    def _members(self) -> dict[RowId, list[Member]]:
        members: dict[RowId, list[Member]] = {}
        for member in self.study.members:
            members.setdefault(identify(drop_part(member.key)), []).append(member)
        return members

    def members(self, row: Row) -> list[Member]:
        """The runs of a row, by seed."""
        return sorted(self._members.get(identify(row.key), []), key=lambda member: (member.seed, member.cell))


@dataclass(frozen=True)
class Sheet:
    """One table: a card on the wall and a page."""

    id: str
    title: str
    citation: str
    """The paper; empty for a space of our own."""
    where: str
    """Which table of the paper."""
    source: str
    """Where the paper is to be had."""
    metric: str
    notes: Sequence[str]
    methods: Sequence[str]
    suites: Sequence[str]
    state: SheetState
    layout: Table
    """The rows and columns as the paper prints them, without any value of ours."""
    unrun: Verdicts
    """What is said of each value of the layout."""
    printed: Sequence[RowId] = ()
    """The paper's rows in their order; empty for a search, whose best cells come first."""
    names: Mapping[RowId, str] = field(default_factory=dict)
    """A row's name in the paper, for rows that have one."""
    scales: Sequence[Scale] = ()
    """The one that decides most first, of two the larger."""
    lacking: Sequence[str] = ()
    """Inputs that cells lack, one line each."""

    @property
    def file(self) -> str:
        """The name of its page."""
        return folder_name(self.id)

    @property
    def main(self) -> Scale | None:
        return self.scales[0] if self.scales else None

    @property
    def shown(self) -> Table:
        """The table on the card."""
        return self.main.table if self.main else self.layout

    @property
    def verdicts(self) -> Verdicts:
        """Those that the wall counts: of the main scale."""
        return self.main.verdicts if self.main else self.unrun

    @property
    def contradictions(self) -> list[str]:
        """Values that hold at one scale and do not hold at another, a line each."""
        says: dict[tuple[RowId, str], dict[str, str]] = {}
        names: dict[RowId, str] = {}
        for scale in self.scales:
            for (index, column), verdict in scale.verdicts.items():
                colour, row = tone(verdict.word), scale.table.rows[index]
                if colour in DECIDED:
                    names[identify(row.key)] = self.row_name(row)
                    says.setdefault((identify(row.key), column), {}).setdefault(
                        colour, f"{verdict.word} at {scale.title}"
                    )
        return [
            f"{names[row]}, {column}: {', but '.join(tones.values())}"
            for (row, column), tones in says.items()
            if len(tones) == len(DECIDED)
        ]

    def order(self, table: Table) -> list[int]:
        """The places of a table's rows in the paper's order; rows that it does not print come last."""
        places = {row: place for place, row in enumerate(self.printed)}
        rows = [places.get(identify(row.key), len(places)) for row in table.rows]
        return sorted(range(len(rows)), key=lambda index: (rows[index], index))

    def row_name(self, row: Row) -> str:
        """What the paper calls a row, else its settings."""
        return self.names.get(identify(row.key)) or label(row.key, self.layout.named)


@dataclass(frozen=True)
class Site:
    """Everything; a paper's tables in the order of their IDs."""

    sheets: Sequence[Sheet]
    sources: Sequence[str]
    """The files or the ledger behind it."""

    @property
    def published(self) -> list[Sheet]:
        return [sheet for sheet in self.sheets if sheet.citation]

    @property
    def listed(self) -> list[Sheet]:
        """All tables as the wall has them, paper by paper."""
        return [sheet for sheets in (*self.papers.values(), self.ours) for sheet in sheets]

    @property
    def ours(self) -> list[Sheet]:
        """Spaces that print no paper's table."""
        return [sheet for sheet in self.sheets if not sheet.citation]

    @property
    def papers(self) -> dict[str, list[Sheet]]:
        """Citation -> its tables; papers that decide most values first, then in the order of their numbers on arXiv."""
        papers: dict[str, list[Sheet]] = {}
        for sheet in self.published:
            papers.setdefault(sheet.citation, []).append(sheet)

        def rank(citation: str) -> tuple[int, str]:
            decided = sum(scale.decided for sheet in papers[citation] for scale in sheet.scales)
            return -decided, papers[citation][0].source.rpartition(" ")[2]

        return {citation: papers[citation] for citation in sorted(papers, key=rank)}


def tone(word: str) -> str:
    """What a verdict's colour says; none for a value that nobody ran."""
    return "" if word == "not run" else TONES.get(word, "")


def words(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Every verdict of the sheets."""
    return (verdict.word for sheet in sheets for verdict in sheet.verdicts.values())


def counts(sheets: Sequence[Sheet]) -> dict[str, int]:
    """How often each word is said, in the order of the glyphs; words that nobody says are left out."""
    said = list(words(sheets))
    return {word: said.count(word) for word in GLYPHS if word in said}
