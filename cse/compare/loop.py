"""Loops of gate questions on one held-out set: earlier questions, and the level that the next one is given.

Every question is an entry in the ledger's selection log. A difference that was seen steers what is tried next, so that
a question counts even if its verdict was undecided.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.imported import IMPORTED, list_imported_sweeps
from analysis.answers.models import NAME_DIGITS, Model, differing_settings
from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.schema import digest
from analysis.ledger.selection_log import Look
from analysis.statistics.looks import FAMILY, spend
from analysis.tables.spec import plain
from cse_train.config import effective
from cse_train.fields import ConfigError

LOG_NAME = "cse gate "
"""Prefix of a loop's name in the selection log, where other entries have the name of a sweep."""
DEFAULT_LOOP = "main"
NO_RUNS = "both sides are folders, which are no runs of a ledger; --candidates N shares the level among N of them"
SEEDS_FOR_A_WORD = 2
"""Seeds of both sides that an interval needs."""


@dataclass(frozen=True)
class Loop:
    """Name and size of the loop of candidates to which a gate question belongs."""

    name: str = DEFAULT_LOOP
    candidates: int | None = None
    """Number of candidates announced before the first question; None for an open number."""


@dataclass(frozen=True)
class LoopQuestion:
    """One gate question on a held-out set, and its place among the questions of its loop."""

    loop: str
    number: int
    """Number of this gate question, from 1, among the different questions of its loop on any of its columns."""
    candidates: int | None
    level: float
    """Probability that any verdict of this gate question is wrong."""
    again: bool
    """True if the same gate question was asked before; it then has the level of its first time."""
    earlier: tuple[str, ...] = ()
    """Signatures of runs of the same configuration about which other questions were asked before."""
    uncounted: str = ""
    """Why the ledger does not count this gate question; "" where it does."""

    def lines(self) -> list[str]:
        """Returns lines for people on a gate question's place in its loop; none for the first question of
        an open loop."""
        total = f" of {self.candidates}" if self.candidates else ""
        lines = []
        if self.again:
            lines.append(f"seen: this is question {self.number}{total} of loop {self.loop} again, at its level of then")
        elif self.number > 1 or self.candidates:
            lines.append(
                f"question {self.number}{total} of loop {self.loop} on this held-out set: its level is {self.level:.3g}"
            )
        if self.earlier:
            runs = ", ".join(name[:NAME_DIGITS] for name in self.earlier)
            lines.append(f"seen: this configuration was asked about before with other runs ({runs} and their seeds)")
        return [*lines, *([f"this question is not counted: {self.uncounted}"] if self.uncounted else [])]


def hash_configuration(run: RunRow, ledger: Ledger) -> str:
    """Returns 16 hex digits over all settings of a run but its seed, and over the content of its inputs."""
    settings = effective({"method": run.method, **run.config})
    configuration = {name: plain(value) for name, value in settings.items() if name not in SEED_SETTINGS}
    sweep = _find_imported_sweep(run, ledger)
    return digest([configuration, dict(run.identity), *([sweep] if sweep else [])])


def _find_imported_sweep(run: RunRow, ledger: Ledger) -> str:
    """Returns the ID of the sweep into which a run was imported; "" for a run that cse-search trained.

    It keeps imports apart, since another tool may not say in what its runs differ.
    """
    sweeps = list_imported_sweeps(ledger, {run.signature}) if IMPORTED in run.identity else []
    return sweeps[0].id if sweeps else ""


def refuse_chosen_seeds(candidate: Model, reference: Model, ledger: Ledger | None) -> None:
    """Raises ConfigError if a model is one of several finished seeds of its cell, and if both models are one
    configuration: another seed is no improvement."""
    sweeps = set[str]()
    if ledger is not None and candidate.runs and reference.runs:
        sweeps = {_find_imported_sweep(model.runs[0], ledger) for model in (candidate, reference)}
    if len(sweeps) == 1 and not differing_settings([*candidate.runs, *reference.runs]):
        a, b = (model.runs[0].signature[:NAME_DIGITS] for model in (candidate, reference))
        line = f"seen: candidate={candidate.name} is the reference with other seeds (run {a}, run {b})"
        raise ConfigError([f"{line}; change a setting, a seed is no improvement"])
    for model in (candidate, reference):
        if model.left_out:
            total = 1 + model.left_out
            line = f"seeds left out: model={model.name} is 1 of the {total} finished seeds of its cell"
            raise ConfigError([f"{line}; give its cell (SWEEP:CELL), all of whose seeds count"])


@dataclass(frozen=True)
class _Entry:
    """One log entry: a question at a number of seeds. Its `rule` is `gate QUESTION CONFIGURATION SEEDS RUNS`."""

    question: str
    """Hash of a gate question: its columns, looks and configurations, and the runs at its first entry."""
    configuration: str
    """Hash of the candidate model's configuration."""
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
    """A gate question: the runs to compare, the columns and the planned looks."""

    key: Sequence[object]
    configuration: str
    pairs: Sequence[Sequence[str]]
    """Signatures of the two compared runs, for each seed."""
    grows: bool
    """True if looks were planned, so that more seeds continue the same question."""

    def entry(self, question: str | None) -> _Entry:
        """Returns the log entry of this question; `question`: hash of its earlier entries, None where it has none."""
        name = question or digest([self.key, self.pairs])
        return _Entry(name, self.configuration, len(self.pairs), digest(self.pairs))

    def continues(self, entries: Sequence[_Entry]) -> bool:
        """Returns True if logged entries belong to this gate question: all of their runs are the first of its runs.

        Without planned looks a question may have gained seeds only if it had one seed, with which no verdict is
        possible.
        """
        if digest([self.key, self.pairs[: entries[0].seeds]]) != entries[0].question:
            return False
        matches = all(entry.seeds <= len(self.pairs) and digest(self.pairs[: entry.seeds]) == entry.runs
                   for entry in entries)  # fmt: skip
        last = entries[-1].seeds
        return matches and (self.grows or last < SEEDS_FOR_A_WORD or last == len(self.pairs))


def ask(
    loop: Loop,
    ledger: Ledger | None,
    sides: tuple[Model, Model],
    differences: Mapping[str, float],
    interim_analyses: Sequence[int] | None = None,
    family: float = FAMILY,
) -> LoopQuestion:
    """Logs a gate question and returns it with its level; a question that was asked before costs nothing.

    `differences`: column -> candidate minus reference. `interim_analyses`: numbers of seeds planned before the first;
    all of them are one question. Raises ConfigError where another number of candidates was announced, and where all
    have been asked. Where neither side has a run that the log could name, the level is that of a first question.
    """
    logged_run = next((run.signature for model in sides for run in model.runs), None)
    if ledger is None or logged_run is None:
        level = spend(1, loop.candidates, family)
        return LoopQuestion(loop.name, 1, loop.candidates, level, again=False, uncounted=NO_RUNS)
    space, columns = f"{LOG_NAME}{loop.name}", sorted(differences)
    earlier_looks = ledger.looks(space)
    question = _question_of(sides, columns, interim_analyses, ledger)
    candidates, entries = _read_candidates(loop, earlier_looks), _entries(earlier_looks, columns)
    earlier = next((name for name, logged in entries.items() if question.continues(logged)), None)
    if candidates is not None and earlier is None and len(entries) >= candidates:
        line = f"no level is left: loop={loop.name} announced {candidates} candidates, and all were asked"
        raise ConfigError([f"{line}; judge by another held-out set (--column), or begin another --loop"])
    entry, uncounted = question.entry(earlier), ""
    again = earlier is not None and entry in entries[earlier]
    if not again:
        try:
            ledger.add_look(Look(space, entry.rule, candidates or 0, logged_run, tuple(columns), dict(differences)))
            # Read back, with what other processes have logged since: the order in the log gives the number.
            entries = _entries(ledger.looks(space), columns)
        except LedgerError as error:
            uncounted = str(error).partition(";")[0]
    questions = list(entries)
    number = (questions.index(entry.question) if entry.question in questions else len(questions)) + 1
    others = {look.signature: None for look in earlier_looks
              if sides[0].runs and (logged_entry := _Entry.read(look)).configuration == question.configuration
              and logged_entry.question != entry.question}  # fmt: skip
    return LoopQuestion(
        loop.name, number, candidates, spend(number, candidates, family), again, tuple(others), uncounted
    )


def _question_of(
    sides: tuple[Model, Model], columns: Sequence[str], interim_analyses: Sequence[int] | None, ledger: Ledger
) -> _Question:
    """Returns the gate question on two models, equal for A against B and for B against A."""
    by_seed = [{run.seed: run.signature for run in model.runs} for model in sides]
    common = sorted(by_seed[0].keys() & by_seed[1].keys())
    if common:
        pairs = [sorted(side[seed] for side in by_seed) for seed in common]
    else:
        pairs = [sorted(filter(None, both)) for both in itertools.zip_longest(*(model.names for model in sides))]
    configurations = [
        hash_configuration(model.runs[0], ledger) if model.runs else model.names[0][:16] for model in sides
    ]
    key = [sorted(configurations), list(columns), list(interim_analyses or ())]
    return _Question(key, configurations[0], pairs, bool(interim_analyses))


def _entries(looks: Sequence[Look], columns: Sequence[str]) -> dict[str, list[_Entry]]:
    """Returns gate question -> its entries, oldest first, for log entries on any of the columns."""
    by_question: dict[str, list[_Entry]] = {}
    for entry in (_Entry.read(look) for look in looks if {*columns} & {*look.suites}):
        by_question.setdefault(entry.question, []).append(entry)
    return by_question


def _read_candidates(loop: Loop, earlier_looks: Sequence[Look]) -> int | None:
    """Returns the loop's number of candidates; ConfigError if another was announced at its first question."""
    if not earlier_looks:
        return loop.candidates
    announced = earlier_looks[0].candidates or None
    if loop.candidates not in (None, announced):
        announcement = f"{announced} candidates" if announced else "no number of candidates"
        line = f"announced too late: candidates={loop.candidates}, loop={loop.name} began with {announcement}"
        raise ConfigError([f"{line}; leave --candidates out, or begin another --loop"])
    return announced
