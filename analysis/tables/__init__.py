"""Tables as data: aggregated cells, verdicts, and the order of rows."""

__all__ = [
    "aggregate",
    "columns",
    "data_sets",
    "directions",
    "labels",
    "ordering",
    "pair_cosines",
    "results",
    "spec",
    "untrained",
    "verdict",
]
