"""From a resolved space to a finished sweep: plan, record, run with progress, report what failed."""

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.ledger import Ledger
from analysis.matching.match import hash_paths
from analysis.sweep_spec import SweepSpec
from analysis.tables.directions import Terms
from analysis.tables.labels import number_of
from cluster.plan.plan import Plan, PlannedRun, SpacePlan, unique
from cluster.plan.planner import plan_all
from cluster.runtime.cards import check_cards, local_kinds
from cluster.runtime.options import SweepOptions
from cluster.search.limits import Budget, parse_budgets
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import find_unscored, still_valid
from cse_train.fields import ConfigError
from cse_train.results import Protocol
from search_spaces.catalog import find_folder
from search_spaces.cells import ResolvedSpace, sweep_name
from search_spaces.identity.missing_inputs import IncompleteCell


@dataclass(frozen=True, kw_only=True)
class Request:
    """A sweep as a person asked for it."""

    resolved: ResolvedSpace
    seeds: Sequence[int]
    paths: DataPaths
    ledger: str
    options: SweepOptions
    budgets: Sequence[Budget] = ()
    """What may be spent in all, the first that is spent counts; nothing for whatever the space asks for."""
    begun: float = field(default_factory=time.monotonic)
    """When the call began: a budget of time by the clock counts from here, with Ray's start."""
    mirror: bool = True
    """Keep an Optuna copy of a search."""
    rerun: bool = False
    """Train again what other code of a method has finished."""
    keep: bool = False
    """Take it as it is. Where neither is said it is refused."""
    track: Sequence[str] = ()
    """Trackers that show the runs."""
    terms: Terms = field(default_factory=Terms)
    """What verdicts are given on."""


@dataclass(frozen=True)
class Work:
    """What tables need: their runs, how many of them the ledger has, and which cells cannot be trained here."""

    spaces: Sequence[SpacePlan]
    runs: Sequence[PlannedRun]
    finished: frozenset[str]
    """Signatures that the ledger has as done."""
    unscored: frozenset[str]
    """Of the finished runs, those that lack a column of the suites that their tables name."""
    incomplete: Sequence[IncompleteCell] = ()
    suites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Signature -> the suites of every table that the run belongs to, but for those below."""
    unscorable: Mapping[str, str] = field(default_factory=dict)
    """Suites whose data are not at hand, with the reason."""

    @property
    def stale(self) -> list[str]:
        """A line for each reason for which finished runs are trained again."""
        return list(dict.fromkeys(line for space in self.spaces for line in space.stale))

    @property
    def total(self) -> int:
        return len(self.runs)

    @property
    def done(self) -> int:
        return len(self.finished)

    @property
    def nothing_left(self) -> bool:
        return self.done == self.total and not self.unscored

    def line(self) -> str:
        if self.nothing_left:
            return f"{self.done}/{self.total} already in the ledger, 0 run"
        return f"{number_of(self.total, 'run')}: {self.done} already in the ledger, {self.total - self.done} to run"


def work_of(requests: Sequence[Request], ledger: Ledger, *, recorded: bool = True) -> Work:
    """Plan tables against the ledger, and record their sweeps there; a run that several share is trained once.

    Cells that lack an input are in `incomplete`; ConfigError where nothing is left of all of them, and where other code
    of a method has made some of the runs and nobody said what to do with them. `recorded`: False where not all of these
    runs may be wanted.
    """
    first = requests[0]
    planned = plan_of(requests, ledger)
    check_code(first, planned.changed())
    runs: list[PlannedRun] = []
    wanted: dict[str, list[str]] = {}
    for request, space in zip(requests, planned.spaces, strict=True):
        sweep = sweep_name(request.resolved)
        complete = [run for run in space.runs if run.signature not in space.incomplete_runs]
        sweep_runs = [dataclasses.replace(run, sweep=sweep) for run in complete]
        if recorded:
            record(request, ledger, sweep_runs, space.incomplete)
        for run in sweep_runs:
            suites = (name for name in request.resolved.suites_of(run.cell) if name not in planned.unscorable)
            wanted.setdefault(run.signature, []).extend(suites)
        runs += sweep_runs
    done = frozenset(signature for space in planned.spaces for signature in space.done)
    incomplete = [cell for space in planned.spaces for cell in space.incomplete]
    lacking = _find_unscored(ledger, done, wanted, first.paths)
    return Work(planned.spaces, unique(runs), done, lacking, incomplete, wanted, planned.unscorable)


def plan_of(requests: Sequence[Request], ledger: Ledger) -> Plan:
    """The plan of the requests, which share their inputs and options.

    ConfigError where what is left asks for an arithmetic that this machine's GPUs do not have; a cluster's are asked
    once it is joined.
    """
    first = requests[0]
    spaces = [(request.resolved, tuple(request.seeds)) for request in requests]
    planned = plan_all(spaces, ledger, first.paths, workers=first.options.workers, keep=first.keep)
    left = [run for space in planned.spaces for run in space.runs if run.signature not in space.done]
    left += [space.like for space in planned.spaces if space.like and space.proposals]
    kinds = local_kinds(first.options) if first.options.address is None else ()
    check_cards(first.options, kinds, {run.run.train.precision for run in left})
    return planned


def check_code(request: Request, changed: Sequence[str]) -> None:
    """ConfigError with a line for each method whose code changed, unless its runs may be trained again."""
    if changed and not request.rerun:
        raise ConfigError(list(changed))


def _find_unscored(
    ledger: Ledger, done: Collection[str], wanted: Mapping[str, Sequence[str]], paths: DataPaths
) -> frozenset[str]:
    have: dict[str, dict[str, Protocol]] = {signature: {} for signature in done}
    for score in ledger.scores(done) if done else ():
        have[score.signature][score.suite] = score.protocol
    return frozenset(name for name in done if find_unscored(wanted.get(name, ()), still_valid(have[name], paths)))


def record(
    request: Request,
    ledger: Ledger,
    runs: Sequence[PlannedRun],
    incomplete: Sequence[IncompleteCell] = (),
    num_samples: int | None = None,
    spent: Sequence[str] = (),
) -> None:
    """Write the sweep, its runs and the cells that lack an input into the ledger.

    `num_samples`: runs that a search makes at most; `spent`: a line for each budget. `blocked` and `asked` are keys of
    the ledger's format.
    """
    space = request.resolved.space
    spec: dict[str, object] = {
        "title": space.title,
        "space": space.id,
        "file": str(space.file.resolve()),
        "profile": request.resolved.profile.name,
        "encoder": "" if request.resolved.own_loop else str(request.resolved.profile.train.get("train.encoder", "")),
        "set": request.resolved.given(),
        "seeds": list(request.seeds),
        "blocked": {cell.label: cell.reason for cell in incomplete},
        "asked": num_samples,
        **({"budget": [str(each) for each in request.budgets], "spent": list(spent)} if request.budgets else {}),
        **request.terms.declared(),
        **_list_written(request.resolved),
    }
    name = sweep_name(request.resolved)
    before = ledger.sweep_spec(name).inputs
    if inputs := {**before, **hash_paths(request.resolved)}:
        spec["inputs"] = inputs
    ledger.record_sweep(name, SweepSpec(spec))
    ledger.link(name, [(run.signature, run.cell, run.seed) for run in runs])


def _list_written(resolved: ResolvedSpace) -> dict[str, object]:
    """What the person's own files say, by which the sweep is known wherever they are by now."""
    written = {"yaml": resolved.space.written, "profile_yaml": resolved.profile.written}
    if resolved.space.file.resolve().is_relative_to(find_folder()):
        del written["yaml"]
    return {name: dict(content) for name, content in written.items() if content}


def set_budgets(request: Request, texts: Sequence[str] | str | None, price: str | None) -> Request:
    """The request with what `--budget` and `--price` say; ConfigError as `parse_budgets`."""
    given = [texts] if isinstance(texts, str) else texts or []
    budgets = parse_budgets(given, methods_of(request.resolved), request.options.gpus_per_run, price)
    return dataclasses.replace(request, budgets=budgets)


def methods_of(resolved: ResolvedSpace) -> list[str]:
    """The methods that share a budget."""
    fixed = resolved.overrides.get("method")
    return [str(fixed)] if fixed else resolved.space.methods()
