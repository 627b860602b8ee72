"""Sweep requests: plans them against the ledger, checks them, and records their sweeps."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.answers.judge import Terms
from analysis.ledger import Ledger
from analysis.matching import hash_paths
from analysis.sweep_spec import Confirmation, SweepSpec
from analysis.tables.labels import number_of
from cluster.plan.plan import Plan, PlannedRun, SpacePlan, unique
from cluster.plan.planner import plan_all
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import check_cards, local_kinds
from cluster.search.budget import Budget, parse_budgets
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import find_unscored, still_valid
from cse_train.fields import ConfigError
from cse_train.results import Protocol
from search_spaces.catalog import find_folder
from search_spaces.cells import ResolvedSpace, sweep_name
from search_spaces.identity.missing_inputs import IncompleteCell


@dataclass(frozen=True, kw_only=True)
class Request:
    """A sweep as the user asked for it: space, seeds, inputs, ledger and options."""

    resolved: ResolvedSpace
    seeds: Sequence[int]
    paths: DataPaths
    ledger: str
    options: SweepOptions
    budgets: Sequence[Budget] = ()
    """Budgets for the whole sweep, of which the first to be spent counts; empty for no limit."""
    begun: float = field(default_factory=time.monotonic)
    """Start of the call on the monotonic clock, from which a budget of time counts, Ray's start included."""
    mirror: bool = True
    """True to keep an Optuna copy of a search."""
    rerun: bool = False
    """True to train again finished runs that other code of a method made."""
    keep: bool = False
    """True to accept finished runs that other code of a method made; they are refused if `rerun` is False as well."""
    track: Sequence[str] = ()
    """Names of trackers that show the runs."""
    terms: Terms = field(default_factory=Terms)
    """Margin, level and interim analyses of verdicts on the table."""
    confirms: Confirmation | None = None
    """Question that the sweep answers on fresh seeds; None for a sweep that confirms nothing."""


@dataclass(frozen=True)
class Work:
    """The runs that requested tables need, those that the ledger has, and cells that cannot be trained here."""

    spaces: Sequence[SpacePlan]
    runs: Sequence[PlannedRun]
    finished: frozenset[str]
    """Signatures of runs that are done in the ledger."""
    unscored: frozenset[str]
    """Signatures of finished runs that lack a score of a suite that their tables name."""
    incomplete: Sequence[IncompleteCell] = ()
    suites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Signature -> suites of every table that contains the run, without `unscorable` ones."""
    unscorable: Mapping[str, str] = field(default_factory=dict)
    """Suite whose data are not at hand -> reason."""

    @property
    def stale(self) -> list[str]:
        """Returns a line for each reason for which finished runs are trained again."""
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
    """Plans requests against the ledger and records their sweeps; a run that several tables share is trained once.

    `recorded`: False where not all of these runs may be wanted. Cells that lack an input are in `incomplete`. Raises
    ConfigError if every cell lacks one, and if other code of a method made some of the runs and neither `rerun` nor
    `keep` is set.
    """
    first = requests[0]
    planned = plan_of(requests, ledger)
    check_code(first, planned.changed())
    runs: list[PlannedRun] = []
    suites_by_run: dict[str, list[str]] = {}
    for request, space in zip(requests, planned.spaces, strict=True):
        sweep = sweep_name(request.resolved)
        complete = [run for run in space.runs if run.signature not in space.incomplete_runs]
        sweep_runs = [dataclasses.replace(run, sweep=sweep) for run in complete]
        if recorded:
            record(request, ledger, sweep_runs, space.incomplete)
        for run in sweep_runs:
            suites = (name for name in request.resolved.suites_of(run.cell) if name not in planned.unscorable)
            suites_by_run.setdefault(run.signature, []).extend(suites)
        runs += sweep_runs
    done = frozenset(signature for space in planned.spaces for signature in space.done)
    incomplete = [cell for space in planned.spaces for cell in space.incomplete]
    protocols: dict[str, dict[str, Protocol]] = {signature: {} for signature in done}
    for score in ledger.scores(done) if done else ():
        protocols[score.signature][score.suite] = score.protocol
    valid = {name: still_valid(scored, first.paths) for name, scored in protocols.items()}
    unscored = frozenset(name for name in done if find_unscored(suites_by_run.get(name, ()), valid[name]))
    return Work(planned.spaces, unique(runs), done, unscored, incomplete, suites_by_run, planned.unscorable)


def plan_of(requests: Sequence[Request], ledger: Ledger) -> Plan:
    """Returns the plan of requests that share their inputs and options.

    Raises ConfigError if a run that is left asks for a precision that this machine's GPUs do not support; a cluster is
    asked once it is joined.
    """
    first = requests[0]
    spaces = [(request.resolved, tuple(request.seeds)) for request in requests]
    planned = plan_all(spaces, ledger, first.paths, workers=first.options.workers, keep=first.keep)
    remaining = [run for space in planned.spaces for run in space.runs if run.signature not in space.done]
    remaining += [space.like for space in planned.spaces if space.like and space.proposals]
    kinds = local_kinds(first.options) if first.options.address is None else ()
    check_cards(first.options, kinds, {run.run.train.precision for run in remaining})
    return planned


def check_code(request: Request, changed: Sequence[str]) -> None:
    """Raises ConfigError with a line for each method whose code changed, unless its runs may be trained again."""
    if changed and not request.rerun:
        raise ConfigError(list(changed))


def record(
    request: Request,
    ledger: Ledger,
    runs: Sequence[PlannedRun],
    incomplete: Sequence[IncompleteCell] = (),
    num_samples: int | None = None,
    spent: Sequence[str] = (),
) -> None:
    """Writes the sweep, its runs and the cells that lack an input into the ledger.

    `num_samples`: most runs of a search. `spent`: a line for each budget. `blocked` and `asked` are keys of the
    ledger's format.
    """
    space, profile = request.resolved.space, request.resolved.profile
    # By its content a user's file is recognised when it has moved.
    is_shipped = space.file.resolve().is_relative_to(find_folder())
    written = {"yaml": {} if is_shipped else space.written, "profile_yaml": profile.written}
    spec: dict[str, object] = {
        "title": space.title,
        "space": space.id,
        "file": str(space.file.resolve()),
        "profile": profile.name,
        "encoder": "" if request.resolved.own_loop else str(profile.train.get("train.encoder", "")),
        "set": request.resolved.given(),
        "seeds": list(request.seeds),
        "blocked": {cell.label: cell.reason for cell in incomplete},
        "asked": num_samples,
        **({"budget": [str(each) for each in request.budgets], "spent": list(spent)} if request.budgets else {}),
        **request.terms.declared(),
        **({"confirms": dataclasses.asdict(request.confirms)} if request.confirms else {}),
        **{name: dict(content) for name, content in written.items() if content},
    }
    name = sweep_name(request.resolved)
    stored_inputs = ledger.sweep_spec(name).inputs
    if inputs := {**stored_inputs, **hash_paths(request.resolved)}:
        spec["inputs"] = inputs
    ledger.record_sweep(name, SweepSpec(spec))
    ledger.link(name, [(run.signature, run.cell, run.seed) for run in runs])


def set_budgets(request: Request, texts: Sequence[str] | str | None, price: str | None) -> Request:
    """Returns the request with the budgets of `--budget` and `--price`. Raises ConfigError as `parse_budgets` does."""
    budget_texts = [texts] if isinstance(texts, str) else texts or []
    budgets = parse_budgets(budget_texts, methods_of(request.resolved), request.options.gpus_per_run, price)
    return dataclasses.replace(request, budgets=budgets)


def methods_of(resolved: ResolvedSpace) -> list[str]:
    """Returns the methods that a space trains, which share a budget."""
    fixed = resolved.overrides.get("method")
    return [str(fixed)] if fixed else resolved.space.methods()
