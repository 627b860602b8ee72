"""Tables as data: aggregated cells, verdicts, and the order of rows."""

__all__ = [
    "aggregate",
    "columns",
    "labels",
    "ordering",
    "pair_cosines",
    "results",
    "spec",
]
