"""A comparison as plain dictionaries for JSON, and as a pandas frame for notebooks."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from analysis.answers.models import Model
from cse.compare.by_pairs import PairComparison
from cse.compare.by_queries import QueryComparison
from cse.compare.by_seeds import ColumnAnswer
from cse_train.evaluate.pairs import Pairs

if TYPE_CHECKING:
    import pandas as pd


def frame_of(columns: Sequence[ColumnAnswer]) -> "pd.DataFrame":
    """Returns a frame with a line for each column.

    It has `column`, `word` (the verdict), `difference` (A minus B), its interval from `low` to `high`, `level` (the
    probability that the interval misses), `common` seeds, and `n`, `mean` and `sd` of A and of B, in the column's
    units.
    """
    lines = []
    for column in columns:
        low, high = column.interval or (None, None)
        facts = {
            "column": column.column,
            "word": column.word,
            "difference": column.difference,
            "low": low,
            "high": high,
        }
        sides = {
            f"{side} {name}": getattr(entry, name)
            for side, entry in (("A", column.A), ("B", column.B))
            for name in ("n", "mean", "sd")
        }
        lines.append(facts | {"level": column.level, "common": column.common, **sides})
    import pandas  # half a second, and only notebooks ask

    return pandas.DataFrame(lines)


def model_dict(model: Model) -> dict[str, object]:
    runs = [{"signature": run.signature, "seed": run.seed} for run in model.runs]
    folders = [str(folder) for folder in model.folders]
    first = folders[0] if folders else None
    return {"name": model.name, "label": model.label, "folder": first, "folders": folders, "runs": runs}


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
