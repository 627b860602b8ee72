"""A table as data: aggregated cells, verdicts, the order of its rows."""
