"""Which runs are needed, which of them exist, and what the others cost."""

__all__ = [
    "cost",
    "data_sets",
    "match",
    "missing_inputs",
    "plan",
    "planner",
    "run_source",
]
