"""The `paper:` block of a space: published values in the shape of our own tables, each row one of the cells."""

from collections.abc import Iterator, Mapping
from typing import Any

from cse_train import fields
from search_spaces.paper import Average, Paper, PublishedRow

TEXTS = ("citation", "table", "source", "metric", "notes", "finding")
NEEDED = TEXTS[:4]
"""A figure without printed numbers has no columns and rows."""
KEYS = (*TEXTS, "columns", "best", "scores", "rows", "references", "average", "default")
BEST = ("max", "min", "none")
MISPRINT = {"as_printed", "recomputed"}
NAMES: Mapping[str, type] = {"key": dict, "label": str}
"""What a row is called by: a cell's key, or the label of a model that is not trained here."""
EXAMPLES = {"key": "{key: {...}, cells: {...}}", "label": "{label: ..., cells: {...}}"}


def brief(value: object) -> str:
    """A value in an error line: at most 40 characters."""
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def parse_paper(raw: Mapping[str, Any], found: list[str]) -> Paper | None:
    """The block as a Paper; None where there is none or it has problems, which are added to `found`."""
    if "paper" not in raw:
        return None
    value = raw["paper"]
    if not isinstance(value, dict):
        found.append(f"wrong type: paper={brief(value)}; give a mapping")
        return None
    problems = [*_shape_problems(value), *_row_shapes(value, "rows", "key"), *_row_shapes(value, "references", "label")]
    found += problems
    return None if problems else _made(value)


def _made(value: Mapping[str, Any]) -> Paper:
    averages = value.get("average", [])
    listed = averages if isinstance(averages, list) else [averages]
    return Paper(
        **{name: value[name] for name in (*TEXTS, "best", "scores", "default") if name in value},
        columns=tuple(value.get("columns", ())),
        rows=tuple(_row(row) for row in value.get("rows", ())),
        references=tuple(_row(row) for row in value.get("references", ())),
        average=tuple(Average(**{**one, "of": tuple(one["of"])}) for one in listed),
    )


def _row(raw: Mapping[str, Any]) -> PublishedRow:
    cells, recomputed = ({k: float(v) for k, v in raw.get(part, {}).items()} for part in ("cells", "recomputed"))
    return PublishedRow(cells=cells, key=raw.get("key"), label=raw.get("label"), recomputed=recomputed)


def _shape_problems(value: Mapping[str, Any]) -> Iterator[str]:
    for name in value:
        if name not in KEYS:
            yield f"unknown key: paper.{name}={brief(value[name])}; {fields.nearest(name, KEYS)}"
    yield from (f"missing key: paper.{name}=null; give it" for name in NEEDED if name not in value)
    for name in TEXTS:
        if not isinstance(value.get(name, ""), str):
            yield f"wrong type: paper.{name}={brief(value[name])}; give text"
    if not _is_texts(value.get("columns", [])):
        yield f"wrong type: paper.columns={brief(value['columns'])}; give a list such as [sts_dev]"
    if value.get("best", "max") not in BEST:
        yield f"unknown value: paper.best={brief(value['best'])}; {fields.nearest(str(value['best']), BEST)}"
    scores = value.get("scores", {})
    if not isinstance(scores, dict) or not _is_texts(list(scores.values())):
        yield f"wrong type: paper.scores={brief(scores)}; give a mapping such as {{avg: sts_average}}"
    if not isinstance(value.get("default", {}), dict):
        yield f"wrong type: paper.default={brief(value['default'])}; give a key such as {{method.dup_rate: 0.32}}"
    averages = value.get("average", [])
    for average in averages if isinstance(averages, list) else [averages]:
        if not _is_average(average):
            yield f"wrong type: paper.average={brief(average)}; give {{column: avg, of: [mr, cr], decimals: 2}}"


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_average(value: object) -> bool:
    if not isinstance(value, dict) or not {"column", "of"} <= set(value) <= {"column", "of", "decimals"}:
        return False
    return isinstance(value["column"], str) and _is_texts(value["of"]) and fields.fits(int, value.get("decimals", 2))


def _row_shapes(value: Mapping[str, Any], part: str, named: str) -> Iterator[str]:
    rows = value.get(part, [])
    if not isinstance(rows, list) or not all(_is_row(row, named) for row in rows):
        yield f"wrong type: paper.{part}={brief(rows)}; give a list of {EXAMPLES[named]}"
        return
    for row in rows:
        if (row.get("as_printed", False) is True) != bool(row.get("recomputed")):
            how = f"as_printed={row.get('as_printed', False)} recomputed={row.get('recomputed')}"
            yield f"half a misprint: paper.{part}: {brief(row[named])}: {how}; give `as_printed: true` with recomputed"


def _is_row(row: object, named: str) -> bool:
    if not isinstance(row, dict) or not {named, "cells"} <= set(row) <= {named, "cells", *MISPRINT}:
        return False
    numbers = (row["cells"], row.get("recomputed", {}))
    return isinstance(row[named], NAMES[named]) and all(
        isinstance(part, dict) and all(fields.fits(float, v) for v in part.values()) for part in numbers
    )
