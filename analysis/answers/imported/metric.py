"""Metric of scores that no suite of this project gives: of imported runs, and of runs with a training loop of their
own.

The metric is the one declared on import or training, else a guess by its name. The ledger's higher score always wins,
so that a metric of which the lower value is better is stored with inverted sign; `Metric.measured` restores it.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from analysis.answers.imported import IMPORTED
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.sweep_spec import INVERTED_PREFIX, SweepSpec
from analysis.tables.results import DEV
from analysis.tables.spec import MetricScale, Sense
from cse_train.evaluate.metric_names import needs_direction, read_span
from cse_train.fields import ConfigError, Scalar
from cse_train.results import Protocol
from search_spaces.user_data import ENCODER

RULE = "rule"
"""Field of a protocol that says how a number was made."""
IMPORTED_RULE = "imported"
"""Prefix of a score's rule for scores that another tool measured."""
IMPORTED_RULE_PATTERN = re.compile(rf"{IMPORTED_RULE}, (?P<better>higher|lower) is better, range (?P<span>\S+)")


@dataclass(frozen=True)
class Metric:
    """Metric of an imported sweep."""

    name: str
    scale: MetricScale

    @property
    def turned(self) -> bool:
        return self.scale.better == "lower"

    def measured(self, run: RunRow) -> RunRow:
        """Returns the run with its score in the tool's own sign."""
        return replace(run, best=-run.best) if self.turned and run.best is not None else run


def declare_metric(name: str, better: Sense | None, span: float | None, values: Iterable[float]) -> Metric:
    """Returns the metric as declared, with guesses for the rest. Raises ConfigError for a loss without direction."""
    if better is None and needs_direction(name):
        raise ConfigError([f"no direction: score={name}; give --better lower, or --better higher"])
    return Metric(name, MetricScale(better or "higher", read_span(name, values) if span is None else span))


def protocol_of_metric(metric: Metric) -> Protocol:
    """Returns the protocol of a score of the metric; its rule holds direction and range, which differ by column."""
    span = "unknown" if metric.scale.span is None else f"{metric.scale.span:g}"
    return Protocol.read({RULE: f"{IMPORTED_RULE}, {metric.scale.better} is better, range {span}"})


def scale_of_protocols(protocols: Iterable[Protocol | None]) -> MetricScale | None:
    """Returns the scale declared for imported scores; None for other scores, and for conflicting declarations."""
    rules = {str(protocol.facts.get(RULE)) for protocol in protocols if protocol is not None}
    match = IMPORTED_RULE_PATTERN.fullmatch(rules.pop()) if len(rules) == 1 else None
    if match is None:
        return None
    return MetricScale(
        "lower" if match["better"] == "lower" else "higher",
        None if match["span"] == "unknown" else float(match["span"]),
    )


def spec_of_metric(metric: Metric) -> dict[str, Scalar]:
    """Returns the fields of a sweep's description that hold the metric."""
    score = (INVERTED_PREFIX if metric.turned else "") + metric.name
    return {"score": score, "better": metric.scale.better, "span": metric.scale.span}


def metric_of_spec(spec: SweepSpec, runs: Sequence[RunRow]) -> Metric:
    """Returns the metric of an imported sweep with these runs; a loss imported without direction has none."""
    name, is_inverted = spec.score.removeprefix(INVERTED_PREFIX), spec.is_turned
    better: Sense | None = "lower" if is_inverted else "higher"
    if not spec.says_better and not is_inverted and needs_direction(name):
        better = None
    values = [run.best for run in runs if run.best is not None]
    return Metric(name, MetricScale(better, spec.span or read_span(name, values)))


def metric_of_runs(ledger: Ledger, runs: Sequence[RunRow]) -> Metric | None:
    """Returns the metric of runs of an imported sweep, or of a user's own loop; None for this project's loop."""
    names = {run.signature for run in runs if IMPORTED in run.identity}
    sweeps = list_imported_sweeps(ledger, names) if names else []
    if sweeps:  # they have one score, and some may say how wide its range is
        newest = ([sweep for sweep in sweeps if sweep.spec.span is not None] or sweeps)[-1]
        return metric_of_spec(newest.spec, ledger.runs(sweep=newest.id))
    return None if names else _metric_of_loop(ledger, runs)


def list_imported_sweeps(ledger: Ledger, signatures: Set[str]) -> list[SweepRow]:
    """Returns the sweeps into which one of these runs was imported, the oldest first."""
    sweeps = (sweep for sweep in ledger.sweeps() if sweep.spec.imported)
    return [sweep for sweep in sweeps if not signatures.isdisjoint(ledger.signatures(sweep.id))]


def _metric_of_loop(ledger: Ledger, runs: Sequence[RunRow]) -> Metric | None:
    """Returns the metric of runs of a user's own loop, by the details of their attempts."""
    first = next((run for run in runs if DEV in run.config and ENCODER not in run.config), None)
    if first is None:
        return None
    noted = [attempt.details.get("better") for attempt in ledger.provenance([first.signature]).get(first.signature, ())]
    values = [run.best for run in runs if run.best is not None]
    return declare_metric(str(first.config[DEV]), "lower" if "lower" in noted else "higher", None, values)
