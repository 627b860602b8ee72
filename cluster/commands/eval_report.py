"""Results as text, Markdown or JSON, each number with the protocol that it was made under."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cluster.commands.columns import aligned

if TYPE_CHECKING:
    from cse_train.evaluate.results import Result

FINE = ("alignment", "uniformity", "mean_cosine")
"""Metrics whose third decimal counts."""
HASH_DIGITS = 12


class ResultFormat(StrEnum):
    """How results are printed."""

    text = "text"
    md = "md"
    json = "json"


def report(results: "Sequence[Result]", form: ResultFormat) -> str:
    """One line per number with the protocol fields in which the numbers differ; below, those that all share.

    JSON has every field and the details of every result.
    """
    if form is ResultFormat.json:
        return json.dumps([_record(result) for result in results], indent=1)
    protocols = [_protocol(result) for result in results]
    shared = {name: value for name, value in protocols[0].items() if all(p[name] == value for p in protocols)}
    rows = [
        {"suite": result.suite, "metric": result.metric, "value": _shown(result)}
        | {name: value for name, value in protocol.items() if name not in shared}
        for result, protocol in zip(results, protocols, strict=True)
    ]
    width = max(len(row["value"]) for row in rows)
    rows = [row | {"value": row["value"].rjust(width)} for row in rows]
    table = markdown(rows) if form is ResultFormat.md else aligned(rows)
    common = "; ".join(f"{name} {value}" for name, value in shared.items() if value != "")
    return "\n".join([table, "", f"protocol: {common}", *_lists(results)])


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """A table with the first row's keys as its head."""
    names = list(rows[0])
    lines = [names, ["--:" if name == "value" else "---" for name in names], *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)


def _record(result: "Result") -> dict[str, Any]:
    return {
        "suite": result.suite,
        "metric": result.metric,
        "value": result.value,
        "protocol": result.protocol.as_dict(),
        "details": dict(result.details),
    }


def _protocol(result: "Result") -> dict[str, str]:
    known = {name: str(value) for name, value in result.protocol.as_dict().items() if name != "suite"}
    return known | {"data_hash": known["data_hash"][:HASH_DIGITS]}


def _shown(result: "Result") -> str:
    return f"{result.value:.3f}" if result.metric in FINE else f"{result.value:.2f}"


def _lists(results: "Sequence[Result]") -> list[str]:
    """The nearest texts of each query, where a result lists them."""
    found = [one for result in results for one in result.details.get("nearest", [])]
    return [
        line
        for one in found
        for line in ("", f"nearest to: {one['query']}", *(f"  {n['cosine']:.3f}  {n['text']}" for n in one["nearest"]))
    ]
