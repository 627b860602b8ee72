"""Runs that another tool made, or a stranger's bundle brought: their metric, their cells, and their place in tables.

Such runs are marked in `identity`. No run trained here can have one of their signatures, so an import replaces no
training. The metric of their scores is the one declared on import, else a guess by its name; a user's own training loop
declares its metric in the same way. The ledger's higher score always wins, so that a metric of which the lower value is
better is stored with inverted sign; `Metric.measured` restores it.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from analysis.answers.lookup import space_of_sweep
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.run_state import RunState
from analysis.sweep_spec import INVERTED_PREFIX, SweepSpec
from analysis.tables.labels import setting_text, short, some, varying
from analysis.tables.results import DEV, Planned
from analysis.tables.spec import Key, MetricScale, Sense
from cse_train.evaluate.metric_names import needs_direction, read_span
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.results import Protocol
from search_spaces.cell_names import setting, shell_words
from search_spaces.cells import ResolvedSpace, full_key, setups, sweep_name
from search_spaces.user_data import ENCODER

IMPORTED = "imported"
"""Entry of a run's `identity` that names the tool which made it; runs trained here have none."""
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
    # A user's own loop notes the direction of its metric with its attempts.
    first = next((run for run in runs if DEV in run.config and ENCODER not in run.config), None)
    if names or first is None:
        return None
    noted = [attempt.details.get("better") for attempt in ledger.provenance([first.signature]).get(first.signature, ())]
    values = [run.best for run in runs if run.best is not None]
    return declare_metric(str(first.config[DEV]), "lower" if "lower" in noted else "higher", None, values)


def list_imported_sweeps(ledger: Ledger, signatures: Set[str]) -> list[SweepRow]:
    """Returns the sweeps into which one of these runs was imported, the oldest first."""
    sweeps = (sweep for sweep in ledger.sweeps() if sweep.spec.imported)
    return [sweep for sweep in sweeps if not signatures.isdisjoint(ledger.signatures(sweep.id))]


NUMBERED_FROM = 1_000_000
"""Offset added to a second model's seeds where an import numbered them, as equal numbers are no common seed."""
SEED_NAMES = ("train.seed", "seed")
CELLS_SHOWN = 8


@dataclass(frozen=True)
class ImportedCell:
    """Configuration of another tool with its finished runs."""

    key: Key
    """Key of the paper's row in a paper's table; else the settings in which the sweep's cells differ."""
    runs: tuple[RunRow, ...]
    """Finished runs of the cell, by seed."""
    label: str = ""
    """Label of the row in a paper's table; empty for others."""

    @property
    def argument(self) -> str:
        """Cell in the form that `--cell` takes."""
        return self.label or ",".join(itertools.starmap(setting, self.key.items())) or "all"


def is_numbered(run: RunRow) -> bool:
    """Returns whether a run's seed is a number that the import assigned, since its tool records no seed."""
    return IMPORTED in run.identity and not any(name in run.config for name in SEED_NAMES)


def read_cells(sweep: SweepRow, ledger: Ledger) -> list[ImportedCell]:
    """Returns the cells with finished runs, in the order of their first runs' signatures."""
    finished = {run.signature: run for run in ledger.runs(sweep=sweep.id, states=[RunState.DONE])}
    by_cell: dict[str, tuple[Mapping[str, Scalar], list[RunRow]]] = {}
    for link in ledger.cells(sweep.id):
        if link.signature in finished:
            row = json.dumps(link.cell, sort_keys=True)
            by_cell.setdefault(row, (link.cell, []))[1].append(finished[link.signature])
    space = space_of_sweep(sweep) if sweep.spec.file else None
    labels = {repr(sorted(cell.key.items())): cell.label or "" for cell in space.rows()} if space else {}
    keys = [cell for cell, _ in by_cell.values()]
    axes = (
        list(dict.fromkeys(itertools.chain(*keys)))
        if space
        else varying(keys, list(dict.fromkeys(itertools.chain(*keys))))
    )
    return [
        ImportedCell(
            {axis: cell[axis] for axis in axes if axis in cell},
            tuple(sorted(runs, key=lambda run: run.seed)),
            labels.get(repr(sorted(cell.items())), ""),
        )
        for cell, runs in by_cell.values()
    ]


def choose_cell(sweep: SweepRow, ledger: Ledger, arguments: Sequence[str], prefix: str) -> ImportedCell:
    """Returns the cell that a label, or `name=value` pairs with commas, mean. Raises ConfigError for none and for
    several.

    A setting may be named by its last part. `prefix` is what a person writes before a cell.
    """
    cells, argument = read_cells(sweep, ledger), ", ".join(arguments)
    if not cells:
        raise ConfigError([f"nothing finished: sweep={sweep.id} has no done run; cse import takes some over"])
    if len(cells) == 1 and argument in ("", cells[0].argument):
        return cells[0]
    labelled = [cell for cell in cells if cell.label and plain_name(cell.label) == plain_name(argument)]
    if labelled:
        return labelled[0]
    examples = _list_first(cells, prefix)
    if not arguments:
        raise ConfigError([f"which cell: cell=none of {len(cells)} of {sweep.id}; give {examples}"])
    pairs = [part.partition("=") for words in arguments for part in re.split(r",(?=[^,=]+=)", words)]
    names = dict.fromkeys(itertools.chain(*(cell.key for cell in cells)))
    for name, equals, _ in pairs:
        if not equals:
            raise ConfigError([f"no such cell: cell={argument}; give one such as {examples}"])
        if not any(name.strip() in (axis, short(axis)) for axis in names):
            raise ConfigError([f"unknown setting: cell={name.strip()}; {nearest(name.strip(), names)}"])
    fitting = [
        cell for cell in cells if all(_has_setting(cell.key, name.strip(), text.strip()) for name, _, text in pairs)
    ]
    if len(fitting) != 1:
        fault = "no such cell" if not fitting else "ambiguous cell"
        raise ConfigError([f"{fault}: cell={argument}; give one such as {_list_first(fitting or cells, prefix)}"])
    return fitting[0]


def _list_first(cells: Sequence[ImportedCell], prefix: str) -> str:
    return some(shell_words((cell.argument for cell in cells), prefix), CELLS_SHOWN, " or ")


def plain_name(label: str) -> str:
    """Returns letters and digits in lower case: `SimCSE-BERT base` and `simcse-bert-base` are one name."""
    return "".join(letter for letter in label.lower() if letter.isalnum())


def _has_setting(key: Key, name: str, text: str) -> bool:
    values = [value for axis, value in key.items() if name in (axis, short(axis))]
    return any(_matches_value(value, text.strip("\"'")) for value in values)


def _matches_value(value: Scalar, text: str) -> bool:
    with contextlib.suppress(ValueError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(text) == value
    return text in (str(value), setting_text(value))


def plan_imported(
    resolved: ResolvedSpace, ledger: Ledger | None
) -> tuple[list[Planned], list[RunRow], list[str], dict[str, MetricScale]]:
    """Returns imported runs whose settings name a cell: (cell key, signature, seed), their rows, notes, and scales.

    A row gets the space's dev set as its dev setting, so that the dev set's column shows its score in the tool's own
    sign. The scales are column -> scale of that score.
    """
    name = sweep_name(resolved)
    spec = ledger.sweep_spec(name) if ledger else SweepSpec({})
    if ledger is None or spec.imported is None:
        return [], [], [], {}
    keys = {link.signature: _key(resolved, link.cell) for link in ledger.cells(name)}
    rows = [run for run in ledger.runs(sweep=name) if keys.get(run.signature) and IMPORTED in run.identity]
    dev = str(setups(resolved)[0][DEV])
    planned: list[Planned] = [(full_key(resolved, keys[run.signature] or {}), run.signature, run.seed) for run in rows]
    note = f"{len(rows)} of {len(keys)} runs imported from {spec.imported}: {dev} is its `{spec.score}`"
    metric = metric_of_spec(spec, rows)
    measured_runs = [metric.measured(replace(run, config={**run.config, DEV: dev}, settings="")) for run in rows]
    notes = [f"{note}, measured there by a protocol of its own."] if rows else []
    return planned, measured_runs, notes, {dev: metric.scale}


def _key(resolved: ResolvedSpace, settings: Mapping[str, Scalar]) -> dict[str, Scalar] | None:
    """Returns the key of the cell that settings name; None if an axis is absent or has another value."""
    flat = {**resolved.fixed, **settings}
    key = {axis: flat[axis] for axis, domain in resolved.axes.items() if axis in flat and domain.active(flat)}
    return key if resolved.contains(key) else None


SOURCE_FACTS = ("source", "about", "licence")
"""Details of an imported run on its source: tool and file, whose code with what settings, the file's licence."""


def list_caveats(sweep: SweepRow, ledger: Ledger, signatures: Iterable[str] | None = None) -> list[str]:
    """Returns a line for each source of the sweep's runs, or of the given signatures."""
    names = [link.signature for link in ledger.cells(sweep.id)] if signatures is None else list(signatures)
    attempts = ledger.provenance(names)
    facts = (attempts[name][-1].details for name in names if attempts.get(name))
    sources = dict.fromkeys(tuple(str(details.get(name) or "") for name in SOURCE_FACTS) for details in facts)
    return [
        f"another implementation: {settings or f'{source}; its settings were not given (--about)'}"
        + (f" (licence {licence})" if licence else "")
        for source, settings, licence in sources
    ]
