"""A comparison as plain data: for programs, and as a frame for notebooks."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from analysis.answers.models import Model
from cse.compare.by_pairs import PairComparison
from cse.compare.by_queries import QueryComparison
from cse.compare.by_seeds import ColumnComparison
from cse_train.evaluate.pairs import Pairs

if TYPE_CHECKING:
    import pandas as pd


def frame_of(columns: Sequence[ColumnComparison]) -> "pd.DataFrame":
    """A line for each column: `column`, `word`, `difference` (A minus B) with its interval `low` to `high` and how
    often that may miss (`level`), `common` seeds, and `n`, `mean` and `sd` of A and of B, in the column's units."""
    lines = []
    for made in columns:
        low, high = made.interval or (None, None)
        facts = {"column": made.column, "word": made.word, "difference": made.difference, "low": low, "high": high}
        sides = {
            f"{side} {name}": getattr(entry, name)
            for side, entry in (("A", made.left), ("B", made.right))
            for name in ("n", "mean", "sd")
        }
        lines.append(facts | {"level": made.level, "common": made.common, **sides})
    import pandas  # half a second, and only notebooks ask

    return pandas.DataFrame(lines)


def model_dict(model: Model) -> dict[str, object]:
    runs = [{"signature": run.signature, "seed": run.seed} for run in model.runs]
    folders = [str(folder) for folder in model.folders]
    first = folders[0] if folders else None
    return {"name": model.name, "label": model.label, "folder": first, "folders": folders, "runs": runs}


def column_dict(column: ColumnComparison) -> dict[str, object]:
    """A column with its single values; a model without seeds has none."""
    facts = {name: value for name, value in asdict(column).items() if name not in ("left", "right", "collapsed")}
    sides = {
        name: {"n": entry.n, "mean": entry.mean, "sd": entry.sd, "values": list(entry.values), "collapsed": fallen}
        | {"seeds": [seed for seed in entry.seeds if seed >= 0], "idle": list(entry.idle)}
        for name, entry, fallen in zip("AB", (column.left, column.right), column.collapsed, strict=True)
    }
    return {**facts, **sides}


def queries_dict(queries: QueryComparison, texts: Sequence[str] | None) -> dict[str, object]:
    listed = [asdict(query) | ({"text": texts[query.index]} if texts else {}) for query in queries.apart]
    return asdict(queries) | {"difference": queries.difference, "apart": listed}


def pairs_dict(pairs: PairComparison, texts: Pairs | None) -> dict[str, object]:
    listed = [
        asdict(pair)
        | {"nearer": pair.nearer}
        | ({"texts": [texts.left[pair.index], texts.right[pair.index]]} if texts else {})
        for pair in pairs.disagreements
    ]
    return asdict(pairs) | {"difference": pairs.difference, "disagreements": listed}
