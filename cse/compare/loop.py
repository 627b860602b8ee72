"""Loops of gate questions on one held-out set: earlier questions, and the level that the next one is given.

Every question is an entry in the ledger's selection log, and so is the first time that its candidate is called better.
A difference that was seen steers what is tried next, so that a question counts even if its verdict was undecided.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.imported import IMPORTED, list_imported_sweeps
from analysis.answers.judge import Scope
from analysis.answers.models import NAME_DIGITS, Model, differing_settings
from analysis.documents import HIDDEN
from analysis.ledger import Ledger, LedgerError, RunRow
from analysis.ledger.schema import digest
from analysis.ledger.selection_log import Look
from analysis.statistics.looks import FAMILY, level_left, spend
from analysis.tables.spec import plain
from cse_train.config import effective
from cse_train.fields import ConfigError

LOG_NAME = "cse gate "
"""Prefix of a loop's name in the selection log, where other entries have the name of a sweep."""
SET = "set:"
"""Prefix of a held-out set's content hash beside the columns of a log entry; all imported scores are one set."""
NO_DATA: Mapping[str, str] = MappingProxyType({})
DEFAULT_LOOP = "main"
CONFIRMATION = "confirm "
"""Prefix of the loops of `cse confirm`, which count among themselves alone: fresh seeds took no part in what was asked
about others."""
DEFAULT_SCOPE: Scope = "both"
"""Scope of a gate question that names none; one in another scope is another question, since its word is another."""
NO_RUNS = "both sides are folders, which are no runs of a ledger; --candidates N shares the level among N of them"
SEEDS_FOR_A_WORD = 2
"""Seeds of both sides that an interval needs."""
QUESTION, FIND = "gate", "found"
"""First words of the rules of log entries: a question, and a question whose candidate was called better."""
FIND_LEVEL = "level"
"""Key of a find's only value: the level of a first question at which it was found."""
LITTLE = 0.02
"""Part of a first question's level below which the ways to more level are named."""
WAYS_ON = (
    "little level is left: a fresh held-out set has its own, more seeds find more at a small level, and --candidates N "
    "before the first question on a set shares its level equally"
)


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
    in_other_loops: int = 0
    """Number of earlier questions to the same held-out set, or about the same models, in other loops."""
    control: Literal["false discovery rate", "family-wise error"] = "family-wise error"
    """Rate that the loop controls: of all candidates called better those that are not, or of any wrong word."""
    rate: float = FAMILY
    """Largest value of the controlled rate."""
    next_level: float | None = None
    """Level of the next question to this held-out set in a loop without an announced number; null in one with."""
    level_left: float | None = None
    """Sum of the levels of all further questions of a loop without an announced number; null in one with."""
    entry: "_Entry | None" = field(default=None, metadata=HIDDEN)
    """Log entry of this question; None where it is not counted."""

    def lines(self) -> list[str]:
        """Returns lines for people on a gate question's place in its loop, and on the level that is left."""
        total = f" of {self.candidates}" if self.candidates else ""
        lines = []
        if self.again:
            lines.append(f"seen: this is question {self.number}{total} of loop {self.loop} again, at its level of then")
        elif self.number > 1 or self.candidates:
            others = f", {self.in_other_loops} of them in other loops" if self.in_other_loops else ""
            of = f" of loop {self.loop}" if self.candidates else ""
            lines.append(
                f"question {self.number}{total}{of} on this held-out set{others}: its level is {self.level:.3g}"
            )
        if self.earlier:
            runs = ", ".join(name[:NAME_DIGITS] for name in self.earlier)
            lines.append(f"seen: this configuration was asked about before with other runs ({runs} and their seeds)")
        if self.uncounted:
            return [*lines, f"this question is not counted: {self.uncounted}"]
        control = f"this loop controls the {self.control} at {100 * self.rate:.4g}%"
        if self.next_level is None or self.level_left is None:
            return [*lines, control]
        following, left = (f"{100 * level:.2g}%" for level in (self.next_level, self.level_left))
        lines.append(f"{control}; the next level is {following}, of {left} that are left")
        return [*lines, *([WAYS_ON] if self.next_level < LITTLE * self.rate else [])]


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
    """One log entry: a question at a number of seeds, or the find of one. Its `rule` is `KIND QUESTION CONFIGURATION
    SEEDS RUNS PAIR`; versions that know no finds read one as its question asked again."""

    loop: str
    columns: tuple[str, ...]
    """Columns that were asked about."""
    sets: frozenset[str]
    """Columns, and content hashes of their held-out sets after SET; what shares one of them shares the level."""
    candidates: int | None
    question: str
    """Hash of a gate question: its columns, looks and configurations, and the runs at its first entry."""
    configuration: str
    """Hash of the candidate model's configuration."""
    seeds: int
    runs: str
    """Hash of the first `seeds` runs of both sides."""
    pair: str
    """Hash of both configurations; empty in entries of versions that wrote none."""
    signature: str
    """Signature of a run of either side."""
    found_at: float | None = None
    """Level of a first question at which the candidate was called better; None for an entry of a question."""

    def look(self, values: Mapping[str, float]) -> Look:
        kind = QUESTION if self.found_at is None else FIND
        rule = f"{kind} {self.question} {self.configuration} {self.seeds} {self.runs} {self.pair}"
        sets = tuple(sorted(self.sets))
        return Look(f"{LOG_NAME}{self.loop}", rule, self.candidates or 0, self.signature, sets, values)

    @classmethod
    def read(cls, look: Look) -> "_Entry":
        kind, question, configuration, seeds, runs, *pair = look.rule.split()
        columns = tuple(name for name in look.suites if not name.startswith(SET))
        return cls(
            look.space.removeprefix(LOG_NAME), columns, frozenset(look.suites), look.candidates or None, question,
            configuration, int(seeds), runs, "".join(pair), look.signature,
            look.values[FIND_LEVEL] if kind == FIND else None,
        )  # fmt: skip


@dataclass(frozen=True)
class _Question:
    """A gate question: the runs to compare, the columns and the planned looks."""

    configurations: Sequence[str]
    """Hashes of the configurations of the candidate and of the reference."""
    columns: Sequence[str]
    interim_analyses: Sequence[int]
    """Planned looks; with them more seeds continue the same question."""
    pairs: Sequence[Sequence[str]]
    """Signatures of the two compared runs, for each seed."""
    over: Scope

    @property
    def pair(self) -> str:
        return digest(sorted(self.configurations))

    def name(self, columns: Sequence[str], seeds: int | None = None) -> str:
        """Returns the hash of the question on these columns with the first `seeds` pairs of runs, all for None."""
        # Only another scope is in the key, so that questions in older ledgers are the same ones.
        scope = [] if self.over == DEFAULT_SCOPE else [self.over]
        key = [sorted(self.configurations), sorted(columns), list(self.interim_analyses), *scope]
        return digest([key, self.pairs[:seeds]])

    def entry(self, loop: Loop, sets: Iterable[str], candidates: int | None, question: str | None, run: str) -> _Entry:
        """Returns the log entry of this question; `question`: hash of its earlier entries, None where it has none;
        `run`: signature of a run of either side."""
        columns = tuple(self.columns)
        return _Entry(
            loop.name, columns, frozenset({*columns, *sets}), candidates, question or self.name(columns),
            self.configurations[0], len(self.pairs), digest(self.pairs), self.pair, run,
        )  # fmt: skip

    def continues(self, entries: Sequence[_Entry]) -> bool:
        """Returns True if logged entries belong to this question: all of their runs are the first of its runs, and
        their columns hold its own.

        Without planned looks a question may have gained seeds only if it had one seed, with which no verdict is
        possible.
        """
        first = entries[0]
        if not {*self.columns} <= {*first.columns} or self.name(first.columns, first.seeds) != first.question:
            return False
        matches = all(entry.seeds <= len(self.pairs) and digest(self.pairs[: entry.seeds]) == entry.runs
                      for entry in entries)  # fmt: skip
        last = entries[-1].seeds
        return matches and (bool(self.interim_analyses) or last < SEEDS_FOR_A_WORD or last == len(self.pairs))


def ask(
    loop: Loop,
    ledger: Ledger | None,
    sides: tuple[Model, Model],
    differences: Mapping[str, float],
    interim_analyses: Sequence[int] | None = None,
    family: float = FAMILY,
    data: Mapping[str, str] = NO_DATA,
    over: Scope = DEFAULT_SCOPE,
) -> LoopQuestion:
    """Logs a question of `cse gate` or `cse compare` and returns it with its level; one that was asked before costs
    nothing.

    `differences`: column -> candidate minus reference. `data`: column -> content hash of its held-out set.
    `interim_analyses`: numbers of seeds planned before the first; all of them are one question. Every earlier question
    counts that was about the same held-out set or the same two configurations, in whatever loop and column. Raises
    ConfigError where another number of candidates was announced, and where all have been asked. Where neither side has
    a run that the log could name, the level is that of a first question.
    """
    logged_run = next((run.signature for model in sides for run in model.runs), None)
    if ledger is None or logged_run is None:
        level = spend(1, loop.candidates, family)
        return LoopQuestion(loop.name, 1, loop.candidates, level, again=False, uncounted=NO_RUNS)
    question = _question_of(sides, sorted(differences), interim_analyses, ledger, over)
    imported = any(IMPORTED in run.identity for model in sides for run in model.runs)
    sets = {SET + (IMPORTED if imported else data[column]) for column in differences if imported or data.get(column)}
    entry = question.entry(loop, sets, None, None, logged_run)
    log = _read_log(ledger, entry)
    logged = _by_question(log)
    candidates = _read_candidates(loop, logged.values())
    earlier = next((name for name, entries in logged.items() if question.continues(entries)), None)
    of_loop = [name for name, entries in logged.items() if entries[0].loop == loop.name]
    if candidates is not None and earlier is None and len(of_loop) >= candidates:
        line = f"no level is left: loop={loop.name} announced {candidates} candidates, and all were asked"
        raise ConfigError(
            [f"{line}; cse confirm judges one by fresh seeds, and a fresh held-out set has its own level"]
        )
    entry, uncounted = question.entry(loop, sets, candidates, earlier, logged_run), ""
    again = earlier is not None and any(
        (entry.seeds, entry.runs) == (each.seeds, each.runs) for each in logged[earlier]
    )
    if not again:
        try:
            ledger.add_look(entry.look(dict(differences)))
            # Read back, with what other processes have logged since: the order in the log gives the number.
            log = _read_log(ledger, entry)
        except LedgerError as error:
            uncounted = str(error).partition(";")[0]
            log = [*log, entry]
        logged = _by_question(log)
    first = logged[entry.question][0]
    account = _Account.of(log, family)
    number, level = account.questions[entry.question]
    others = {each.signature: None for entries in logged.values() for each in entries
              if sides[0].runs and each.configuration == entry.configuration
              and each.question != entry.question}  # fmt: skip
    # A question about some of the columns of an earlier one has their part of its level.
    share = len(question.columns) / len(first.columns)
    asked = LoopQuestion(
        first.loop,
        number,
        first.candidates,
        level * share,
        again,
        tuple(others),
        uncounted,
        _count_other(logged, first),
        rate=family,
        entry=None if uncounted else entry,
    )
    return asked if first.candidates else account.tell(asked)


def log_find(asked: LoopQuestion, ledger: Ledger | None) -> LoopQuestion:
    """Logs, once, that the candidate of a question was called better; returns the question with the level now left.

    Of the other way round nothing is logged: half of a level is that of a wrong `better`, for the side first asked
    about alone.
    """
    if ledger is None or asked.entry is None:
        return asked
    find = replace(asked.entry, found_at=asked.rate)
    log = _read_log(ledger, find)
    known = find.question in _Account.of(log, asked.rate).finds
    if not known and _by_question(log)[find.question][0].configuration == find.configuration:
        with contextlib.suppress(LedgerError):
            ledger.add_look(find.look({FIND_LEVEL: asked.rate}))
            log = _read_log(ledger, find)
    return asked if asked.candidates else _Account.of(log, asked.rate).tell(asked)


def _read_log(ledger: Ledger, asked: _Entry) -> list[_Entry]:
    """Returns entries, oldest first, of all loops, that share a held-out set or both configurations with `asked`."""
    return [
        entry
        for entry in map(_Entry.read, ledger.looks(LOG_NAME, is_prefix=True))
        if entry.loop.startswith(CONFIRMATION) == asked.loop.startswith(CONFIRMATION)
        and (entry.sets & asked.sets or (entry.pair and entry.pair == asked.pair))
    ]


def _by_question(log: Iterable[_Entry]) -> dict[str, list[_Entry]]:
    """Returns question -> its entries, without finds, oldest first."""
    by_question: dict[str, list[_Entry]] = {}
    for entry in log:
        if entry.found_at is None:
            by_question.setdefault(entry.question, []).append(entry)
    return by_question


@dataclass(frozen=True)
class _Account:
    """Levels of the questions of a log, each of which depends on the entries before its own alone."""

    family: float
    questions: Mapping[str, tuple[int, float]]
    """Question -> its number within its loop, and its level."""
    finds: Mapping[str, int]
    """Question whose candidate was called better -> number of places taken when that was known, in this order."""
    places: int
    """Number of places taken; an announced loop takes as many at once as it has candidates."""

    @classmethod
    def of(cls, log: Iterable[_Entry], family: float) -> "_Account":
        questions, finds, places = dict[str, tuple[int, float]](), dict[str, int](), 0
        starts, numbers = dict[str, tuple[int, float]](), Counter[str]()
        for entry in log:
            if entry.found_at is not None:
                if entry.found_at <= family:
                    finds.setdefault(entry.question, places)
            elif entry.question not in questions:
                numbers[entry.loop] += 1
                key = entry.question if entry.candidates is None else entry.loop
                if key not in starts:
                    starts[key] = places + 1, spend(places + 1, entry.candidates, family, [*finds.values()])
                    places += entry.candidates or 1
                start, level = starts[key]
                questions[entry.question] = numbers[entry.loop] if entry.candidates else start, level
        return cls(family, questions, finds, places)

    def tell(self, asked: LoopQuestion) -> LoopQuestion:
        """Returns a question of a loop without an announced number with the level that is left after the whole log."""
        finds = [*self.finds.values()]
        return replace(
            asked,
            control="false discovery rate",
            next_level=spend(self.places + 1, None, self.family, finds),
            level_left=level_left(self.places, self.family, finds),
        )


def _count_other(logged: Mapping[str, Sequence[_Entry]], asked: _Entry) -> int:
    """Returns the number of questions in other loops, before the one that `asked` begins."""
    before = itertools.takewhile(lambda entries: entries[0] is not asked, logged.values())
    return sum(entries[0].loop != asked.loop for entries in before)


def _question_of(
    sides: tuple[Model, Model],
    columns: Sequence[str],
    interim_analyses: Sequence[int] | None,
    ledger: Ledger,
    over: Scope,
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
    return _Question(configurations, list(columns), list(interim_analyses or ()), pairs, over)


def _read_candidates(loop: Loop, logged: Iterable[Sequence[_Entry]]) -> int | None:
    """Returns the loop's number of candidates; ConfigError if another was announced at its first question."""
    first = next((entries[0] for entries in logged if entries[0].loop == loop.name), None)
    if first is None:
        return loop.candidates
    if loop.candidates not in (None, first.candidates):
        announcement = f"{first.candidates} candidates" if first.candidates else "no number of candidates"
        line = f"announced too late: candidates={loop.candidates}, loop={loop.name} began with {announcement}"
        raise ConfigError([f"{line}; leave --candidates out"])
    return first.candidates
