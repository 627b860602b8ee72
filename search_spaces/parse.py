"""Components of a method: the settings that take each out of a configuration (`components:` of the method's YAML)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cse_train import fields
from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError, Scalar
from search_spaces import keys
from search_spaces.domains import Domain, contains, parents_first, parse_domain
from search_spaces.paper import Paper
from search_spaces.parse_paper import brief, parse_paper
from search_spaces.space import Component, ExplicitCell, Key, SearchConfig, Space
from search_spaces.strict_yaml import read_yaml

SHAPE = "give {name: {key: value that turns it off}}, or {key: {value: what replaces it}}"


def parse_components(raw: Mapping[str, Any], named: Sequence[str], found: list[str]) -> dict[str, Component]:
    """Name -> component; every problem of the block goes to `found`, one line each. `named`: the space's methods."""
    block = raw.get("components", {})
    if not isinstance(block, dict):
        found.append(f"wrong type: components={block}; {SHAPE}")
        return {}
    problems = [line for name, value in block.items() for line in _problems(name, value, named)]
    found += problems
    return {} if problems else {name: _component(value, named[0]) for name, value in block.items()}


def _problems(name: str, value: object, named: Sequence[str]) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [f"wrong component: components.{name}={value}; {SHAPE}"]
    return [line for key, off in value.items() for line in _setting_problems(f"components.{name}", key, off, named)]


def _setting_problems(where: str, key: str, off: Any, named: Sequence[str]) -> list[str]:
    if key == "method" or isinstance(off, list) or off == {}:
        return [f"wrong component: {where}.{key}={off}; {SHAPE}"]
    given = [*off, *off.values()] if isinstance(off, dict) else [off]
    return [line.replace(": ", f": {where}.", 1) for one in given for line in keys.problems({key: one}, named)]


def _component(value: Mapping[str, Any], method: str) -> Component:
    plain = {key: keys.normal(key, off, method) for key, off in value.items() if not isinstance(off, dict)}
    return Component(plain, {key: dict(off) for key, off in value.items() if isinstance(off, dict)})


def row_problems(space: Space) -> list[str]:
    """Published rows that are no cell, columns that are not declared, and averages that do not re-add."""
    if space.paper is None:
        return []
    is_cell = _membership(space)
    keys = [row.key for row in space.paper.rows if row.key is not None]
    found = [f"row without a cell: paper.rows.key={key}; add it to the space" for key in keys if not is_cell(key)]
    if space.paper.default is not None and not is_cell(space.paper.default):
        found.append(f"no such cell: paper.default={space.paper.default}; give the key of a cell")
    found += _column_problems(space.paper)
    return found + [
        f"average does not re-add: paper.{column}={row.cells[column]} of {brief(row.name)}: its columns give "
        f"{mean:.4f}; correct it, or keep it with `as_printed: true` and `recomputed: {{{column}: {mean:.2f}}}`"
        for row, column, mean in space.paper.misadded()
    ]


def _column_problems(paper: Paper) -> list[str]:
    used = [
        *(("rows.cells", name) for row in paper.rows for name in row.cells),
        *(("references.cells", name) for row in paper.references for name in row.cells),
        *(("scores", name) for name in paper.scores),
        *(("average", name) for average in paper.average for name in (average.column, *average.of)),
    ]
    wrong = sorted({(part, name) for part, name in used if name not in paper.columns})
    found = [f"unknown column: paper.{part}={name}; {fields.nearest(name, paper.columns)}" for part, name in wrong]
    return found + [
        f"unknown column: paper.recomputed={name} of {brief(row.name)}; {fields.nearest(name, row.cells)}"
        for row in (*paper.rows, *paper.references)
        for name in row.recomputed
        if name not in row.cells
    ]


def _membership(space: Space) -> Callable[[Key], bool]:
    if not space.cells:
        fixed = {"method": space.method} if space.method else {}
        return lambda key: contains(space.axes, fixed, key)
    shown = [{a: c.settings.get(a, space.settings.get(a)) for a in space.axis_names} for c in space.cells]
    return lambda key: {**dict.fromkeys(space.axis_names), **key} in shown


HEAD = ("version", "id", "title", "notes", "method", "profile", "seeds")
TOP = (*HEAD, "set", "space", "cells", "evaluate", "search", "paper", "components")
MOST_SEEDS = 10_000
"""Seeds of one cell that a count may ask for."""


def parse_file(path: Path) -> Space:
    """The space in one file; ConfigError holds `FILE: rule: name=value; what to do` for each problem."""
    space, found = parse(read_yaml(path), path)
    if found or space is None:
        raise ConfigError([f"{path}: {line}" for line in dict.fromkeys(found)])
    return space


def parse(raw: Mapping[str, Any], path: Path) -> tuple[Space | None, list[str]]:
    """The space, or None and every problem found."""
    found = _shape_problems(raw)
    axes, cells = _parse_axes(raw, found), _parse_cells(raw, found)
    named = _candidates(raw, axes, cells, found)
    settings = _mapping(raw, "set", found)
    if named:
        found += keys.problems(settings, named) + _axis_problems(axes, named) + _cell_problems(cells, named)
        settings = _normal(settings, named[0])
        axes = {name: _normal_domain(name, domain, named) for name, domain in axes.items()}
        cells = [ExplicitCell(c.label, _normal(c.settings, _method_of(c, named))) for c in cells]
    search = _parse_search(raw, axes, found)
    paper = parse_paper(raw, found)
    components = parse_components(raw, named, found) if named else {}
    seeds = _parse_seeds(raw, found)
    found += [f"key set twice: {k}={settings[k]} in `set` and `space`; keep one" for k in settings if k in axes]
    if found:
        return None, found
    space = Space(
        id=raw["id"], title=raw.get("title", raw["id"]), file=path, method=raw.get("method"),
        profile=raw.get("profile", "small"), seeds=seeds, settings=settings, axes=axes, cells=tuple(cells),
        evaluate=tuple(raw.get("evaluate", ())), search=search, paper=paper, components=components,
        notes=raw.get("notes", ""),
    )  # fmt: skip
    return space, row_problems(space)


def _shape_problems(raw: Mapping[str, Any]) -> list[str]:
    found = [f"unknown key: {key}={brief(raw[key])}; {fields.nearest(key, TOP)}" for key in raw if key not in TOP]
    if raw.get("version") != 1:
        found.append(f"wrong version: version={raw.get('version')}; write `version: 1`")
    if not isinstance(raw.get("id"), str):
        found.append(f"wrong type: id={raw.get('id')}; give the space a short name such as E7")
    found += [
        f"wrong type: {key}={raw[key]!r}; give text"
        for key in ("title", "notes", "profile")
        if not isinstance(raw.get(key, ""), str)
    ]
    if bool(raw.get("space")) == bool(raw.get("cells")) and not _is_the_papers_alone(raw):
        what = "both" if raw.get("space") else "neither"
        found.append(f"no single list of cells: space,cells={what}; give `space:` or `cells:`, not both")
    return found + _suite_problems(raw.get("evaluate", []))


def _is_the_papers_alone(raw: Mapping[str, Any]) -> bool:
    """Whether a table says outright that it has no cells, only rows of models that are not trained here."""
    paper = raw.get("paper")
    return not {"space", "cells"} & set(raw) and isinstance(paper, dict) and bool(paper.get("references"))


def _suite_problems(suites: Any) -> list[str]:
    if not isinstance(suites, list) or not all(isinstance(s, str) for s in suites):
        return [f"wrong type: evaluate={suites!r}; give a list of suites such as [sts_dev]"]
    unknown = [suite for suite in suites if not registry.is_known(suite)]
    return [f"unknown suite: evaluate={suite}; {fields.nearest(suite, registry.names())}" for suite in unknown]


def _mapping(raw: Mapping[str, Any], key: str, found: list[str]) -> dict[str, Any]:
    value = raw.get(key) or {}
    if isinstance(value, dict):
        return value
    found.append(f"wrong type: {key}={brief(value)}; give a mapping of dotted keys")
    return {}


def _parse_axes(raw: Mapping[str, Any], found: list[str]) -> dict[str, Domain]:
    axes = {}
    for name, value in _mapping(raw, "space", found).items():
        domain, problems = parse_domain(name, value)
        found += problems
        if domain:
            axes[name] = domain
    ordered, problems = parents_first(axes)
    found += problems
    return ordered


def _parse_cells(raw: Mapping[str, Any], found: list[str]) -> list[ExplicitCell]:
    listed = raw.get("cells") or []
    if not isinstance(listed, list):
        found.append(f"wrong type: cells={brief(listed)}; give a list of {{label: ..., set: {{...}}}}")
        return []
    cells = []
    for number, cell in enumerate(listed):
        if not isinstance(cell, dict) or set(cell) != {"label", "set"} or not isinstance(cell["set"], dict):
            found.append(f"wrong cell: cells[{number}]={brief(cell)}; give {{label: ..., set: {{key: value}}}}")
        else:
            cells.append(ExplicitCell(str(cell["label"]), cell["set"]))
    return cells


def _candidates(
    raw: Mapping[str, Any], axes: Mapping[str, Domain], cells: list[ExplicitCell], found: list[str]
) -> list[str]:
    """Every method the space may run; empty, with the problem noted, when that is not clear."""
    if "method" in axes and "method" in raw:
        found.append(f"key set twice: method={raw['method']} stands at top level and in `space`; keep one")
    given = _named(raw, axes, cells)
    wrong = [line for value in given if (line := keys.problem("method", value, ""))]
    found += wrong
    return [] if wrong else [str(name) for name in dict.fromkeys(given)]


def _named(raw: Mapping[str, Any], axes: Mapping[str, Domain], cells: list[ExplicitCell]) -> list[Any]:
    if "method" in axes:
        return list(axes["method"].arguments)
    if "method" in raw:
        return [raw["method"]]
    space = raw.get("space")
    if isinstance(space, dict) and "method" in space:
        return []
    return [cell.settings.get("method") for cell in cells] or [None]


def _axis_problems(axes: Mapping[str, Domain], named: list[str]) -> list[str]:
    found = []
    for name, domain in axes.items():
        found += _when_problems(name, domain, axes, named)
        for value in domain.arguments:
            found += keys.problems({name: value}, _methods_of(domain, named))
    return found


def _methods_of(domain: Domain, named: list[str]) -> list[str]:
    """The methods under which an axis can count."""
    allowed = domain.when.get("method", tuple(named))
    return [name for name in named if name in allowed]


def _when_problems(name: str, domain: Domain, axes: Mapping[str, Domain], named: list[str]) -> list[str]:
    found = []
    for key, allowed in domain.when.items():
        if key not in axes and key != "method":
            found.append(f"unknown key: {name}.when.{key}={list(allowed)}; {fields.nearest(key, [*axes, 'method'])}")
            continue
        outside = [v for v in allowed if not (axes[key].contains(v) if key in axes else v in named)]
        found += [f"condition never true: {name}.when.{key}={v}; give a value that the space has" for v in outside]
    return found


def _cell_problems(cells: list[ExplicitCell], named: list[str]) -> list[str]:
    found = []
    for cell in cells:
        found += keys.problems(cell.settings, [_method_of(cell, named)])
    labels = [cell.label for cell in cells]
    twice = {label for label in labels if labels.count(label) > 1}
    return found + [f"duplicate label: cells.label={label}; name each cell once" for label in sorted(twice)]


def _method_of(cell: ExplicitCell, named: list[str]) -> str:
    return str(cell.settings.get("method", named[0]))


def _normal(settings: Key, method: str) -> dict[str, Scalar]:
    return {key: keys.normal(key, value, method) for key, value in settings.items()}


def _normal_domain(name: str, domain: Domain, named: list[str]) -> Domain:
    owner = next(iter(_methods_of(domain, named)), named[0])
    return Domain(domain.word, tuple(keys.normal(name, v, owner) for v in domain.arguments), domain.when)


def _parse_search(raw: Mapping[str, Any], axes: Mapping[str, Domain], found: list[str]) -> SearchConfig | None:
    value = _mapping(raw, "search", found)
    removed = _removed(value)
    left = {name: given for name, given in value.items() if name not in removed}
    problems = [*removed.values(), *fields.problems(SearchConfig, left, "search.")]
    found += problems
    search = fields.make(SearchConfig, value) if "search" in raw and not problems else None
    if search and not axes:
        found.append("nothing to search: search.sampler needs `space:`; listed cells are all run")
    sampled = [name for name, domain in axes.items() if domain.word != "grid"]
    if sampled and "search" not in raw:
        found.append(f"no search: space.{sampled[0]}={axes[sampled[0]].word}; add `search:` or give it a grid")
    endless = [name for name, domain in axes.items() if not domain.finite]
    if search and endless and (search.num_samples is None or search.sampler == "grid"):
        how = f"search.sampler={search.sampler} search.num_samples={search.num_samples}"
        found.append(f"endless search: {how} over {endless[0]}; give num_samples and a sampler other than grid")
    return search


def _removed(search: Mapping[str, Any]) -> dict[str, str]:
    """Settings of `search:` that older files have and that are gone -> what to write instead."""
    lines = {
        name: f"removed setting: search.{name}={brief(search[name])}; seeds are not raced, give `seeds: N` and tpe"
        for name in ("race", "max_seeds")
        if name in search
    }
    if search.get("sampler") == "posterior":
        lines["sampler"] = "removed sampler: search.sampler=posterior; give tpe, which finds cells as good"
    return lines


def _parse_seeds(raw: Mapping[str, Any], found: list[str]) -> tuple[int, ...]:
    value = raw.get("seeds", 3)
    if fields.fits(int, value) and 1 <= value <= MOST_SEEDS:
        return tuple(range(value))
    if isinstance(value, list) and value and all(fields.fits(int, v) and 0 <= v < 2**32 for v in value):
        return tuple(value)
    most = f"a count of at most {MOST_SEEDS} such as 3 or a list such as [0, 1, 2]"
    found.append(f"wrong type: seeds={brief(value)}; give {most}")
    return ()
