"""A table as data: aggregated cells, verdicts, the order of its rows."""

__all__ = [
    "aggregate",
    "columns",
    "data_sets",
    "directions",
    "labels",
    "ordering",
    "pair_cosines",
    "provenance",
    "results",
    "spec",
    "untrained",
    "verdict",
]
