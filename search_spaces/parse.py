"""Parses a space's YAML file into a `Space`, or into every problem of the file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cse_train import fields
from cse_train.evaluate.pairs import set_name, suite_names
from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.plugins import registry as plugins
from search_spaces import keys
from search_spaces.domains import Domain, contains, parents_first, parse_domain
from search_spaces.file_shape import brief, read
from search_spaces.paper import Key, Paper, read_paper
from search_spaces.space import OFF_ADVICE, Component, ExplicitCell, SearchConfig, Space, SpaceFile
from search_spaces.strict_yaml import read_yaml
from search_spaces.trainer import adopt_trainer
from search_spaces.user_data import absolute_models, absolute_paths, collect, find_beside


def parse_file(path: Path) -> Space:
    """Parses the space of a file; raises ConfigError with `FILE: rule: name=value; what to do` for each problem."""
    return _require_space(*parse(read_yaml(path), path), path)


def parse_written(written: Json, path: Path) -> Space:
    """Parses the content of `Space.written`, whose file may be gone; raises ConfigError as `parse_file` does."""
    return _require_space(*parse(written, path, absolute=True), path)


def _require_space(space: Space | None, problems: Sequence[str], path: Path) -> Space:
    if problems or space is None:
        raise ConfigError([f"{path}: {line}" for line in dict.fromkeys(problems)])
    return space


def parse(raw: Json, path: Path, *, absolute: bool = False) -> tuple[Space | None, list[str]]:
    """Parses a space; returns None and every problem where it is not valid.

    Relative paths count from the file's folder unless `absolute` is set.
    """
    folder = path.resolve().parent
    unknown, sources = list[str](), raw.get("plugins")
    if isinstance(sources, list) and all(isinstance(source, str) for source in sources):
        try:
            plugins.use(sources, path.absolute().parent)
        except ConfigError as error:
            unknown = error.problems
    written = raw
    raw, of_trainer = adopt_trainer(raw, folder)
    collected = collect(raw if absolute else absolute_models(raw, folder), folder)
    raw = collected.raw
    file, problems = read(SpaceFile, {"version": None, "id": None, **raw})
    if unknown or of_trainer:  # what names them would only be reported once more
        return None, problems + unknown + of_trainer
    problems += collected.problems
    # A table may say outright that it has no cells, only rows of models that are not trained here.
    printed = raw.get("paper")
    rows_alone = not {"space", "cells"} & set(raw) and isinstance(printed, dict) and bool(printed.get("references"))
    if bool(raw.get("space")) == bool(raw.get("cells")) and not rows_alone:
        count = "both" if raw.get("space") else "neither"
        problems.append(f"no single list of cells: space,cells={count}; give `space:` or `cells:`, not both")
    suites = tuple(str(suite) for suite in file.evaluate)
    user_names = {user_file.name for user_file in collected.files}
    for suite in suites:
        if not registry.is_known(suite) and suite not in user_names:
            problems.append(
                f"unknown suite: evaluate={suite}; {fields.nearest(suite, [*registry.names(), *user_names])}"
            )
    columns = [column for suite in suites for column in registry.columns(suite)]
    rated = sorted(column for column in columns if set_name(column) in suite_names() or column in user_names)
    for name in file.forgotten:
        if name not in rated:
            hint = fields.nearest(name, rated) if rated else "list a set of rated pairs under `evaluate:`"
            problems.append(f"no such column: forgotten={name}; {hint}")
    axes = dict[str, Domain]()
    for name, value in (file.space or {}).items():
        domain, lines = parse_domain(name, value)
        problems += lines
        axes |= {name: domain} if domain else {}
    axes, lines = parents_first(axes)
    problems += lines
    methods, lines = _parse_methods(file, axes)
    problems += lines
    settings, cells = file.set or {}, file.cells
    components: dict[str, Component] = {}
    if methods:
        problems += keys.problems(settings, methods) + _axis_problems(axes, methods) + _cell_problems(cells, methods)
        components, lines = _parse_components(file.components, methods)
        problems += lines
        settings = _normal(settings, methods[0])
        axes = {name: _normal_domain(name, domain, methods) for name, domain in axes.items()}
        problems += _set_for_problems(file, methods)
        cells = tuple(ExplicitCell(c.label, _normal(c.settings, _method_of(c, methods))) for c in cells)
    paper, lines = (None, []) if file.paper is None else read_paper(file.paper)
    problems += lines
    if paper is not None and not lines:
        problems += [
            f"half a misprint: paper.{part}: {brief(row.name)}: as_printed={row.as_printed} "
            f"recomputed={dict(row.recomputed) or None}; give `as_printed: true` with recomputed"
            for part, rows in (("rows", paper.rows), ("references", paper.references))
            for row in rows
            if row.as_printed != bool(row.recomputed)
        ]
    seeds = tuple(range(file.seeds)) if isinstance(file.seeds, int) else tuple(file.seeds)
    problems += [f"duplicate seed: seeds={seed}; list it once" for seed, count in Counter(seeds).items() if count > 1]
    search, lines = _parse_search(raw, axes)
    problems += lines
    problems += [f"key set twice: {k}={settings[k]} in `set` and `space`; keep one" for k in settings if k in axes]
    if problems:
        return None, problems
    space = Space(
        id=file.id, title=file.title or file.id, file=path.absolute(), plugins=file.plugins, method=file.method,
        profile=find_beside(file.profile, folder), seeds=seeds,
        settings=settings, axes=axes, cells=cells, evaluate=suites, forgotten=file.forgotten, set_for=file.set_for,
        search=search, paper=paper, components=components, notes=file.notes,
        files=tuple(dict.fromkeys(collected.files)), written=written if absolute else absolute_paths(written, folder),
    )  # fmt: skip
    return space, _row_problems(space, paper) if paper else []


def _set_for_problems(file: SpaceFile, methods: Sequence[str]) -> list[str]:
    """Returns problems of `set_for:`: each key must fit some method, and each suite must score its own name."""
    problems = [f"nothing to set for: set_for={file.set_for}; a search proposes cells, give `evaluate:` alone"] * bool(
        file.set_for and file.search
    )
    for suite, settings in file.set_for.items():
        if suite not in file.evaluate or suite not in registry.columns(suite):
            problems.append(
                f"no such column: set_for.{suite}={brief(settings)}; {fields.nearest(suite, map(str, file.evaluate))}"
            )
        fitting = [method for method in methods if keys.have(settings, method)] or methods[:1]
        problems += keys.problems(settings, fitting)
    return problems


def _parse_methods(file: SpaceFile, axes: Mapping[str, Domain]) -> tuple[list[str], list[str]]:
    """Returns every method that the space may run, and problems; no methods where they are not clear."""
    problems = []
    if "method" in axes and file.method is not None:
        problems.append(f"key set twice: method={file.method} stands at top level and in `space`; keep one")
    names: Sequence[Any] = [file.method]
    if "method" in axes:
        names = axes["method"].arguments
    elif file.method is None and "method" in (file.space or {}):
        names = []
    elif file.method is None:
        names = [cell.settings.get("method") for cell in file.cells] or [None]
    wrong = [line for value in names if (line := keys.problem("method", value, ""))]
    return [] if wrong else [str(name) for name in dict.fromkeys(names)], problems + wrong


def _axis_problems(axes: Mapping[str, Domain], methods: list[str]) -> list[str]:
    """Returns problems of the axes' conditions and of their values."""
    problems = []
    for name, domain in axes.items():
        for key, allowed in domain.when.items():
            if key not in axes and key != "method":
                hint = fields.nearest(key, [*axes, "method"])
                problems.append(f"unknown key: {name}.when.{key}={list(allowed)}; {hint}")
                continue
            outside = [v for v in allowed if not (axes[key].contains(v) if key in axes else v in methods)]
            problems += [
                f"condition never true: {name}.when.{key}={v}; give a value that the space has" for v in outside
            ]
        for value in domain.arguments:
            problems += keys.problems({name: value}, domain.methods(methods))
    return problems


def _cell_problems(cells: Sequence[ExplicitCell], methods: list[str]) -> list[str]:
    problems = []
    for cell in cells:
        problems += keys.problems(cell.settings, [_method_of(cell, methods)])
    labels = [cell.label for cell in cells]
    twice = {label for label in labels if labels.count(label) > 1}
    return problems + [f"duplicate label: cells.label={label}; name each cell once" for label in sorted(twice)]


def _method_of(cell: ExplicitCell, methods: list[str]) -> str:
    return str(cell.settings.get("method", methods[0]))


def _normal(settings: Key, method: str) -> dict[str, Scalar]:
    return {key: keys.normal(key, value, method) for key, value in settings.items()}


def _normal_domain(name: str, domain: Domain, methods: list[str]) -> Domain:
    method = (domain.methods(methods) or methods)[0]
    return replace(domain, arguments=tuple(keys.normal(name, value, method) for value in domain.arguments))


def _parse_search(raw: Json, axes: Mapping[str, Domain]) -> tuple[SearchConfig | None, list[str]]:
    """Parses `search:`; returns it and problems, those of a space that needs one and has none among them."""
    block = raw.get("search")
    search, problems = None, []
    if isinstance(block, dict):
        removed = {
            name: f"removed setting: search.{name}={brief(block[name])}; seeds are not raced, give `seeds: N` and tpe"
            for name in ("race", "max_seeds")
            if name in block
        }
        if block.get("sampler") == "posterior":
            removed["sampler"] = "removed sampler: search.sampler=posterior; give tpe, which finds cells as good"
        rest = {name: value for name, value in block.items() if name not in removed}
        problems = [*removed.values(), *fields.problems(SearchConfig, rest, "search.")]
        search = None if problems else fields.make_checked(SearchConfig, block)
    if search and not axes:
        problems.append("nothing to search: search.sampler needs `space:`; listed cells are all run")
    sampled = [name for name, domain in axes.items() if domain.word != "grid"]
    if sampled and "search" not in raw:
        problems.append(f"no search: space.{sampled[0]}={axes[sampled[0]].word}; add `search:` or give it a grid")
    endless = [name for name, domain in axes.items() if not domain.finite]
    if search and endless and (search.num_samples is None or search.sampler == "grid"):
        settings = f"search.sampler={search.sampler} search.num_samples={search.num_samples}"
        problems.append(f"endless search: {settings} over {endless[0]}; give num_samples and a sampler other than grid")
    return search, problems


def _parse_components(block: Mapping[str, Any], methods: list[str]) -> tuple[dict[str, Component], list[str]]:
    """Parses `components:`; returns name -> the settings that take this part out of a configuration, and problems."""
    problems = [line for name, value in block.items() for line in _component_problems(name, value, methods)]
    if problems:
        return {}, problems
    components = {}
    for name, value in block.items():
        plain = {key: keys.normal(key, off, methods[0]) for key, off in value.items() if not isinstance(off, dict)}
        components[name] = Component(plain, {key: dict(off) for key, off in value.items() if isinstance(off, dict)})
    return components, []


def _component_problems(name: str, value: object, methods: Sequence[str]) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [f"wrong component: components.{name}={value}; {OFF_ADVICE}"]
    problems = []
    for key, off in value.items():
        if key == "method" or isinstance(off, list) or off == {}:
            problems.append(f"wrong component: components.{name}.{key}={off}; {OFF_ADVICE}")
            continue
        settings = [{key: each} for each in ([*off, *off.values()] if isinstance(off, dict) else [off])]
        lines = [line for setting in settings for line in keys.problems(setting, methods)]
        problems += [line.replace(": ", f": components.{name}.", 1) for line in lines]
    return problems


def _row_problems(space: Space, paper: Paper) -> list[str]:
    """Returns problems of the published table: rows without a cell, undeclared columns, averages that do not add up."""
    fixed = {"method": space.method} if space.method else {}
    cell_keys = [{a: c.settings.get(a, space.settings.get(a)) for a in space.axis_names} for c in space.cells]

    def is_cell(key: Key) -> bool:
        if not space.cells:
            return contains(space.axes, fixed, key)
        return {**dict.fromkeys(space.axis_names), **key} in cell_keys

    row_keys = [row.key for row in paper.rows]
    problems = [
        f"row without a cell: paper.rows.key={key}; add it to the space" for key in row_keys if not is_cell(key)
    ]
    if paper.default is not None and not is_cell(paper.default):
        problems.append(f"no such cell: paper.default={paper.default}; give the key of a cell")
    problems += _column_problems(paper)
    return problems + [
        f"average does not re-add: paper.{column}={row.cells[column]} of {brief(row.name)}: its columns give "
        f"{mean:.4f}; correct it, or keep it with `as_printed: true` and `recomputed: {{{column}: {mean:.2f}}}`"
        for row, column, mean in paper.misadded()
    ]


def _column_problems(paper: Paper) -> list[str]:
    used = [
        *(("rows.cells", name) for row in paper.rows for name in row.cells),
        *(("references.cells", name) for row in paper.references for name in row.cells),
        *(("scores", name) for name in paper.scores),
        *(("unscored", name) for name in paper.unscored),
        *(("average", name) for average in paper.average for name in (average.column, *average.of)),
    ]
    wrong = sorted({(part, name) for part, name in used if name not in paper.columns})
    problems = [f"unknown column: paper.{part}={name}; {fields.nearest(name, paper.columns)}" for part, name in wrong]
    return problems + [
        f"unknown column: paper.recomputed={name} of {brief(row.name)}; {fields.nearest(name, row.cells)}"
        for row in (*paper.rows, *paper.references)
        for name in row.recomputed
        if name not in row.cells
    ]
