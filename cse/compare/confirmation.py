"""Confirmations of a sweep's pick: the sweep of fresh seeds in which the pick and its reference are trained again.

Before anything is trained, every reason is looked for why these runs could not answer the question.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import yaml

from analysis.answers.imported import IMPORTED
from analysis.answers.lookup import space_of_sweep, spaces_of_run, sweep_of
from analysis.answers.models import NAME_DIGITS, PICK_NAME, Model, differing_settings, model_of, split_name
from analysis.answers.picks import Rivals, rivals_of
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.ledger.schema import digest
from analysis.sweep_spec import Confirmation
from analysis.tables.labels import some
from cluster.plan.plan import SpacePlan
from cse.cli import ledgers
from cse.cli.loader import deferred
from cse.cli.model_options import find_folder
from cse.cli.options import settings, sweep_named
from cse.cli.sweep_options import SweepArguments
from cse.compare.loop import CONFIRMATION
from cse.compare.question import UNTRAINED, find_untrained
from cse.experiments import request as sweeping
from cse.experiments.ablation import plugins_of
from cse.experiments.request import Request
from cse_train.config import complete, parse_run
from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.files import replace_text
from cse_train.user_files import UserFile, map_files
from search_spaces.cells import ResolvedSpace, resolve
from search_spaces.identity.missing_inputs import group_by_reason
from search_spaces.identity.signature import signature
from search_spaces.keys import SEED
from search_spaces.parse import parse
from search_spaces.space import Space
from search_spaces.trainer import BLOCK
from search_spaces.user_data import ROLES

with deferred(__name__):
    from analysis.answers import selection

PICK, REFERENCE = "pick", "reference"
"""Labels of the two cells of a confirmation."""
CONFIRMATIONS_FOLDER = "confirmations"
"""Folder, beside the ledger, with the space of each confirmation."""
AS_TRAINED = "paper"
"""Profile of a confirmation's space, which replaces no value: each cell has every setting of its runs."""


@dataclass(frozen=True)
class ConfirmationPlan:
    """Plan of `cse confirm`: the runs that it trains, and the two models that it asks about afterwards."""

    request: Request
    confirms: Confirmation
    cells: int
    """Number of cells of the sweep with finished runs, of which the pick is one."""
    rule: str
    """Rule by which the sweep ranks its cells."""
    candidate: str
    """Name of the pick with its fresh seeds alone."""
    against: str
    """Name of the reference with its fresh seeds alone, or of a model that is taken as it is."""
    rivals: Rivals | None
    """Cells of the sweep that cannot be told from the pick; None for a cell that was named, and for the only one."""

    @property
    def sweep(self) -> str:
        """ID of the confirmation's own sweep."""
        return self.request.resolved.space.id

    @property
    def loop(self) -> str:
        """Loop in which the question is asked: a second pick of the same sweep is its second candidate."""
        return f"{CONFIRMATION}{self.confirms.sweep}"

    def lines(self) -> list[str]:
        """Returns the lines that say, before anything is trained, what is confirmed."""
        confirms = self.confirms
        place = f"one of {self.cells} cells, ranked by the {self.rule}"
        return [
            f"confirms {confirms.sweep}:{confirms.cell} ({place})",
            f"against {confirms.reference}, on seeds {tell_seeds(confirms.seeds)}, which no run of either has",
            *([self.rivals.line()] if self.rivals else []),
        ]


def prepare(
    what: str,
    against: str,
    count: int,
    columns: Sequence[str] | None,
    suites: Sequence[str],
    arguments: SweepArguments,
    ledger: Ledger | None,
) -> ConfirmationPlan:
    """Returns the confirmation of a sweep's pick, or of `SWEEP:CELL`, with `count` fresh seeds of each side.

    A confirmation that was begun keeps its seeds. `suites` are scored afterwards. Raises ConfigError for whatever would
    leave the question without an answer; nothing is recorded.
    """
    ledger = ledgers.require_ledger(ledger)
    name, cell = split_name(what, ledger) or (what, "")
    sweep = sweep_of(sweep_named(name, ledger), ledger)
    assert sweep is not None
    if sweep.spec.confirms is not None:
        line = f"a confirmation: sweep={sweep.id} confirms {sweep.spec.confirms.sweep}, and picks nothing"
        raise ConfigError([f"{line}; name a search or a grid"])
    _refuse_import(sweep, against)
    cells = selection.require_finished(ledger, sweep.id)
    pick = model_of(f"{sweep.id}:{cell or PICK_NAME}", ledger)
    reference = (
        find_untrained(pick, ledger)
        if against == UNTRAINED
        else model_of(against, ledger, arguments.profile, settings(arguments.settings), find_folder=find_folder)
    )
    _require_two(pick, reference, against)
    spaces = [space_of_sweep(sweep), *(spaces_of_run(reference.runs[0].signature, ledger) if reference.runs else ())]
    resolved = _make_space(sweep, pick, reference, count, [space for space in spaces if space], arguments)
    _require_columns(columns, suites, pick, reference, resolved)
    begun = ledger.sweep_spec(resolved.space.id).confirms
    seeds = list(begun.seeds) if begun else _fresh_seeds(ledger, sweep, (pick, reference), count)
    words = pick.label.removeprefix(f"{sweep.id}:")
    axes = list(dict.fromkeys([*pick.axes, *reference.axes]))
    confirms = Confirmation(sweep.id, words, reference.label if reference.runs else against, seeds, axes)
    (request,) = replace(arguments, profile=None, settings=None, seeds=None).requests_for([resolved])
    request = replace(request, seeds=tuple(seeds), confirms=confirms)
    _require_inputs(request, ledger, (pick, reference), columns)
    return ConfirmationPlan(
        request, confirms, len(cells), cells[0].rule, f"{resolved.space.id}:{PICK}",
        f"{resolved.space.id}:{REFERENCE}" if reference.runs else against,
        rivals_of(cells, ledger) if len(cells) > 1 and cell in ("", PICK_NAME) else None,
    )  # fmt: skip


def write(space: Space) -> None:
    """Writes a confirmation's space as a YAML file, for a person to read and for `cse run`."""
    replace_text(space.file, yaml.safe_dump(dict(space.written), sort_keys=False, allow_unicode=True))


def tell_seeds(seeds: Sequence[int]) -> str:
    """Returns seeds as text: `3 to 10` where they follow each other, else all of them."""
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 2:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _refuse_import(sweep: SweepRow, against: str) -> None:
    """Raises ConfigError for runs of another tool, with the commands that confirm their pick."""
    if sweep.spec.imported is None:
        return
    tool, fresh = sweep.spec.imported, f"{sweep.id}-fresh"
    line = f"runs of {tool}: sweep={sweep.id} was imported, and its program is not here"
    trained = f"train its pick and {against} there on seeds that no run has, cse import {tool} FILE --as {fresh}"
    raise ConfigError([f"{line}; {trained}, then cse gate {fresh}:CELL --against {fresh}:CELL"])


def _require_two(pick: Model, reference: Model, against: str) -> None:
    if any(IMPORTED in run.identity for run in reference.runs):
        line = f"runs of another tool: against={against} was imported, and its program is not here"
        raise ConfigError([f"{line}; name a cell that was trained here, untrained, or a model's folder"])
    if reference.runs and not differing_settings([*pick.runs, *reference.runs]):
        line = f"the pick itself: against={against} is {pick.label}"
        raise ConfigError([f"{line}, with its settings; name another cell, or untrained"])


def _make_space(
    sweep: SweepRow,
    pick: Model,
    reference: Model,
    count: int,
    spaces: Sequence[ResolvedSpace],
    arguments: SweepArguments,
) -> ResolvedSpace:
    """Returns the space with the pick, and the reference where that is trained, each with every setting of its runs.

    Raises ConfigError where a side's settings have no form as a cell, as settings of a method that is gone have none.
    """
    if not spaces or sweep.spec.file is None:
        line = f"no space: sweep={sweep.id} ran {sweep.spec.file}, which is gone or changed"
        raise ConfigError([f"{line}; put the file of then there"])
    models = {PICK: pick, REFERENCE: reference} if reference.runs else {PICK: pick}
    flats = {label: _settings(model.runs[0]) for label, model in models.items()}
    raw = _write_space(sweep.id, flats, count, spaces)
    folder = ledgers.notes_folder(ledgers.ledger_url(arguments.ledger), ledgers.storage_folder(arguments.storage))
    space, problems = parse(raw, (folder / CONFIRMATIONS_FOLDER / f"{raw['id']}.yaml").resolve(), absolute=True)
    if space is None:
        raise ConfigError(problems)
    resolved = resolve(space)
    for cell in resolved.cells():
        flat = flats[str(cell.label)]
        wrong = [key for key, value in cell.flat.items() if key != SEED and flat.get(key) != value]
        if wrong:
            line = f"no cell: {cell.label}={models[str(cell.label)].label} has {some(wrong, 3)} otherwise than a space"
            raise ConfigError([f"{line} can say; write a space with both, and cse gate on seeds of your own"])
    return resolved


def _write_space(
    sweep: str, flats: Mapping[str, Mapping[str, Scalar]], count: int, spaces: Sequence[ResolvedSpace]
) -> dict[str, object]:
    """Returns the space as YAML content with absolute paths; its ID is one for these two sides and this many seeds."""
    files = map_files(file for space in reversed(spaces) for file in space.files)
    program = spaces[0].space.written.get(BLOCK)
    if program is not None:  # its parameters alone: the rest of a run's settings are no keys of such a space
        flats = {
            label: {key: value for key, value in flat.items() if "." not in key and key != "method"}
            for label, flat in flats.items()
        }
    keys = list(dict.fromkeys(key for flat in flats.values() for key in flat))
    values = {key: [flat[key] for flat in flats.values() if key in flat] for key in keys}
    shared = {key for key in keys if len(values[key]) == len(flats) and all(v == values[key][0] for v in values[key])}
    # A cell cannot say null, which leaves an axis out; what `set:` says, another cell can change.
    null = {key for key in keys if key not in shared and len(values[key]) == len(flats) and None in values[key]}
    fixed = {key: values[key][0] if key in shared else None for key in keys if key in shared | null}
    own_settings = {
        label: {key: value for key, value in flat.items() if key not in fixed or value != fixed[key]}
        for label, flat in flats.items()
    }
    cells = [
        {"label": label, "set": {key: _as_written(key, value, files) for key, value in flat.items()}}
        for label, flat in own_settings.items()
    ]
    plugins = dict.fromkeys(source for space in spaces for source in plugins_of(space.space))
    name = re.sub(r"[^\w@.=-]+", "-", sweep).strip("-")
    own = {BLOCK: program} if program is not None else {"profile": AS_TRAINED}
    suites = [_as_data(files.get((False, suite)), suite) for suite in spaces[0].space.evaluate]
    return {
        "version": 1,
        "id": f"confirm-{name}-{digest([sweep, dict(flats), count])[:6]}",
        "title": f"the pick of {sweep} and its reference, on fresh seeds",
        **({"plugins": list(plugins)} if plugins else {}),
        **own,
        **({"method": fixed.pop("method")} if "method" in fixed else {}),
        "evaluate": suites,
        "set": {key: _as_written(key, value, files) for key, value in fixed.items()},
        "cells": cells,
    }


def _as_written(key: str, value: Scalar, files: Mapping[tuple[bool, str], UserFile]) -> object:
    """Returns a setting's value as a space says it: a corpus or a dev set of the user's own by its file."""
    role = ROLES.get(key)
    return value if role is None else _as_data(files.get((role == "corpus", str(value))), value)


def _as_data(file: UserFile | None, name: Scalar) -> object:
    if file is None:
        return name
    text = file.text()
    return json.loads(text) if text.startswith("{") else {"file": text}


def _require_columns(
    columns: Sequence[str] | None,
    suites: Sequence[str],
    pick: Model,
    reference: Model,
    resolved: ResolvedSpace,
) -> None:
    """Raises ConfigError for columns that the fresh runs will not have, and for two dev sets where none is named."""
    if columns is None:
        if reference.runs and pick.dev != reference.dev and not suites:
            line = f"unlike dev sets: the pick was chosen on {pick.dev}, {reference.name} on {reference.dev}"
            raise ConfigError([f"{line}; give --column"])
        return
    scored = [*resolved.space.evaluate, *suites]
    names = [str(pick.dev), *scored, *(column for suite in scored for column in registry.columns(suite))]
    unknown = [column for column in columns if column not in names and column.partition(":")[0] not in names]
    raise_for = [f"no such column: column={column}; {nearest(column, names)}, or add --suite" for column in unknown]
    if raise_for:
        raise ConfigError(raise_for)


def _fresh_seeds(ledger: Ledger, sweep: SweepRow, models: Sequence[Model], count: int) -> list[int]:
    """Returns equal seeds for both sides, above those of all runs of either, in any state, and of the whole sweep."""
    known = [_settings(model.runs[0]) for model in models if model.runs]
    texts: dict[tuple[str, str], bool] = {}
    taken = [link.seed for link in ledger.cells(sweep.id)]
    for row in ledger.runs():
        key = row.method, row.settings
        if key not in texts:
            texts[key] = False
            with contextlib.suppress(ConfigError):  # of a method that is not here, and so of neither side
                texts[key] = _settings(row) in known
        taken += [row.seed] if texts[key] else []
    first = max(taken) + 1
    return list(range(first, first + count))


def _settings(row: RunRow) -> Mapping[str, Scalar]:
    """Returns every setting of a run but its seed. Raises ConfigError for a method that is not here."""
    flat = parse_run(complete({"method": row.method, **row.config})).flat()
    return {key: value for key, value in flat.items() if key != SEED}


def _require_inputs(request: Request, ledger: Ledger, models: Sequence[Model], columns: Sequence[str] | None) -> None:
    """Raises ConfigError where an input is absent, or differs from the one that the sweep's own runs had."""
    plan = sweeping.plan_of([request], ledger)
    (space,) = plan.spaces
    if space.incomplete:
        raise ConfigError(group_by_reason(space.incomplete))
    unscorable = [name for name in columns or () if name in plan.unscorable]
    if unscorable:
        raise ConfigError([f"not scored: column={name}: {plan.unscorable[name]}" for name in unscorable])
    problems = _list_changes(space, [model for model in models if model.runs])
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _list_changes(space: SpacePlan, models: Sequence[Model]) -> list[str]:
    """Returns a line for each change, of an input or of code, that fresh runs would have against the earlier ones."""
    changed: dict[str, list[str]] = {}
    for cell, model in zip(space.resolved.cells(), models, strict=True):
        now = next(run for run in space.runs if run.cell == cell.key).identity
        other = [row for row in model.runs if signature(cell.run(row.seed), now) != row.signature]
        for row in other[:1]:
            parts = [part for part in dict.fromkeys([*row.identity, *now]) if row.identity.get(part) != now.get(part)]
            before, after = (", ".join(_short(each, part) for part in parts) for each in (row.identity, now))
            code = f"were trained by another VERSION of {row.method}"
            changed.setdefault(f"had {before}, and now it is {after}" if parts else code, []).append(model.label)
    advice = "give the inputs of then, or search again on these"
    return [
        f"changed since the search: the runs of {' and '.join(labels)} {change}; {advice}"
        for change, labels in changed.items()
    ]


def _short(identity: Mapping[str, str | int], part: str) -> str:
    return f"{part} {str(identity.get(part, 'none'))[:NAME_DIGITS]}"
