"""A loop of questions on one held-out set: what was asked before, and the level that this question has.

Every question is a look of the ledger's log. A difference that was seen steers what is tried next, so that a question
counts also where it had no word.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.imported import IMPORTED
from analysis.answers.imported.metric import list_imported_sweeps
from analysis.answers.models import NAME_DIGITS, Model, differing_settings
from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.schema import digest
from analysis.ledger.selection_log import Look
from analysis.statistics.looks import FAMILY, spend
from analysis.tables.spec import plain
from cse_train.config import effective
from cse_train.fields import ConfigError

LOG_NAME = "cse gate "
"""Begins what stands in the log in place of a sweep's name."""
DEFAULT_LOOP = "main"
NO_RUNS = "both sides are folders, which are no runs of a ledger; --candidates N shares the level among N of them"
SEEDS_FOR_A_WORD = 2
"""Of both sides; with one no interval exists."""


@dataclass(frozen=True)
class Loop:
    """What a person says of the loop that a question belongs to."""

    name: str = DEFAULT_LOOP
    candidates: int | None = None
    """Announced before the first question; None for as many as come."""


@dataclass(frozen=True)
class LoopQuestion:
    """One question to a held-out set, and its place among those of its loop."""

    loop: str
    number: int
    """Of the loop's different questions on one of these columns, from 1."""
    candidates: int | None
    level: float
    """How often any word of this question may be wrong."""
    again: bool
    """Whether it was asked before, and has the level of then."""
    earlier: tuple[str, ...] = ()
    """Runs of this configuration, by signature, about which other questions were asked before."""
    uncounted: str = ""
    """Why the ledger does not count it; empty where it does."""

    def lines(self) -> list[str]:
        """For people; none for the first question of a loop."""
        of = f" of {self.candidates}" if self.candidates else ""
        said = []
        if self.again:
            said.append(f"seen: this is question {self.number}{of} of loop {self.loop} again, at its level of then")
        elif self.number > 1 or self.candidates:
            said.append(
                f"question {self.number}{of} of loop {self.loop} on this held-out set: its level is {self.level:.3g}"
            )
        if self.earlier:
            runs = ", ".join(name[:NAME_DIGITS] for name in self.earlier)
            said.append(f"seen: this configuration was asked about before with other runs ({runs} and their seeds)")
        return [*said, *([f"this question is not counted: {self.uncounted}"] if self.uncounted else [])]


def hash_configuration(run: RunRow, ledger: Ledger) -> str:
    """16 hex digits of all settings but the seed, and of the content of the inputs."""
    settings = effective({"method": run.method, **run.config})
    kept = {name: plain(value) for name, value in settings.items() if name not in SEED_SETTINGS}
    sweep = _find_imported_sweep(run, ledger)
    return digest([kept, dict(run.identity), *([sweep] if sweep else [])])


def _find_imported_sweep(run: RunRow, ledger: Ledger) -> str:
    """Where an import brought a run, whose tool may not say in what it differs from runs elsewhere; empty for ours."""
    sweeps = list_imported_sweeps(ledger, {run.signature}) if IMPORTED in run.identity else []
    return sweeps[0].id if sweeps else ""


def refuse_other_seeds(candidate: Model, reference: Model, ledger: Ledger | None) -> None:
    """ConfigError where both are one configuration: a change of seed is no improvement."""
    if ledger is None or not (candidate.runs and reference.runs):
        return
    sweeps = {_find_imported_sweep(model.runs[0], ledger) for model in (candidate, reference)}
    if len(sweeps) == 1 and not differing_settings([*candidate.runs, *reference.runs]):
        a, b = (model.runs[0].signature[:NAME_DIGITS] for model in (candidate, reference))
        line = f"seen: candidate={candidate.name} is the reference with other seeds (run {a}, run {b})"
        raise ConfigError([f"{line}; change a setting, a seed is no improvement"])


@dataclass(frozen=True)
class _Entry:
    """One line of the log: a question at so many seeds; its `rule` is `gate QUESTION CONFIGURATION SEEDS RUNS`."""

    question: str
    """Hash of what is asked and of the runs at its first entry."""
    configuration: str
    """Hash of the candidate's."""
    seeds: int
    runs: str
    """Hash of the first `seeds` runs of both sides."""

    @property
    def rule(self) -> str:
        return f"gate {self.question} {self.configuration} {self.seeds} {self.runs}"

    @classmethod
    def read(cls, look: Look) -> "_Entry":
        _, question, configuration, seeds, runs = look.rule.split()
        return cls(question, configuration, int(seeds), runs)


@dataclass(frozen=True)
class _Question:
    """Which runs are compared, in which columns and at which looks."""

    key: Sequence[object]
    configuration: str
    pairs: Sequence[Sequence[str]]
    """Signatures of both sides for each seed."""
    grows: bool
    """Whether looks were named, so that more seeds make no other question."""

    @property
    def id(self) -> str:
        """Of one that was not asked before."""
        return self._hash(len(self.pairs))

    def _hash(self, seeds: int) -> str:
        return digest([self.key, self.pairs[:seeds]])

    def entry(self, question: str) -> _Entry:
        return _Entry(question, self.configuration, len(self.pairs), digest(self.pairs))

    def continues(self, entries: Sequence[_Entry]) -> bool:
        """Whether a question with these entries is this one: with all of its runs, and others behind them at most.

        Without named looks it may have got seeds only while there was one, which gives no word.
        """
        if self._hash(entries[0].seeds) != entries[0].question:
            return False
        ours = all(entry.seeds <= len(self.pairs) and digest(self.pairs[: entry.seeds]) == entry.runs
                   for entry in entries)  # fmt: skip
        last = entries[-1].seeds
        return ours and (self.grows or last < SEEDS_FOR_A_WORD or last == len(self.pairs))


def ask(
    loop: Loop,
    ledger: Ledger | None,
    sides: tuple[Model, Model],
    differences: Mapping[str, float],
    looks: Sequence[int] | None = None,
    family: float = FAMILY,
) -> LoopQuestion:
    """Log the question and give its level; one that was asked before costs nothing.

    `differences`: column -> candidate minus reference. `looks`: numbers of seeds named before the first, which make one
    question of all of them. ConfigError where another number of candidates was announced, and where all were asked.
    Where no side has a run that the log could name, the level is that of a first question.
    """
    logged_run = next((run.signature for model in sides for run in model.runs), None)
    if ledger is None or logged_run is None:
        level = spend(1, loop.candidates, family)
        return LoopQuestion(loop.name, 1, loop.candidates, level, again=False, uncounted=NO_RUNS)
    space, columns, before = f"{LOG_NAME}{loop.name}", sorted(differences), ledger.looks(f"{LOG_NAME}{loop.name}")
    question = _question_of(sides, columns, looks, ledger)
    candidates, entries = _announced(loop, before), _entries(before, columns)
    old = next((name for name, logged in entries.items() if question.continues(logged)), None)
    if candidates is not None and old is None and len(entries) >= candidates:
        line = f"no level is left: loop={loop.name} announced {candidates} candidates, and all were asked"
        raise ConfigError([f"{line}; judge by another held-out set (--column), or begin another --loop"])
    entry, uncounted = question.entry(old or question.id), ""
    again = old is not None and entry in entries[old]
    if not again:
        try:
            ledger.add_look(Look(space, entry.rule, candidates or 0, logged_run, tuple(columns), dict(differences)))
            entries = _entries(ledger.looks(space), columns)
        except LedgerError as error:
            uncounted = str(error).partition(";")[0]
    names = list(entries)
    number = (names.index(entry.question) if entry.question in names else len(names)) + 1
    others = {look.signature: None for look in before
              if sides[0].runs and (made := _Entry.read(look)).configuration == question.configuration
              and made.question != entry.question}  # fmt: skip
    return LoopQuestion(
        loop.name, number, candidates, spend(number, candidates, family), again, tuple(others), uncounted
    )


def _question_of(
    sides: tuple[Model, Model], columns: Sequence[str], looks: Sequence[int] | None, ledger: Ledger
) -> _Question:
    """The same for A against B and B against A."""
    by_seed = [{run.seed: run.signature for run in model.runs} for model in sides]
    common = sorted(by_seed[0].keys() & by_seed[1].keys())
    if common:
        pairs = [sorted(side[seed] for side in by_seed) for seed in common]
    else:
        pairs = [sorted(filter(None, both)) for both in itertools.zip_longest(*(model.names for model in sides))]
    configurations = [
        hash_configuration(model.runs[0], ledger) if model.runs else model.names[0][:16] for model in sides
    ]
    key = [sorted(configurations), list(columns), list(looks or ())]
    return _Question(key, configurations[0], pairs, bool(looks))


def _entries(looks: Sequence[Look], columns: Sequence[str]) -> dict[str, list[_Entry]]:
    """Question -> its entries, of those on any of the columns, the oldest first."""
    made: dict[str, list[_Entry]] = {}
    for entry in (_Entry.read(look) for look in looks if {*columns} & {*look.suites}):
        made.setdefault(entry.question, []).append(entry)
    return made


def _announced(loop: Loop, before: Sequence[Look]) -> int | None:
    """How many candidates the loop has. ConfigError for another number than at its first question."""
    if not before:
        return loop.candidates
    announced = before[0].candidates or None
    if loop.candidates not in (None, announced):
        said = f"{announced} candidates" if announced else "no number of candidates"
        line = f"announced too late: candidates={loop.candidates}, loop={loop.name} began with {said}"
        raise ConfigError([f"{line}; leave --candidates out, or begin another --loop"])
    return announced
