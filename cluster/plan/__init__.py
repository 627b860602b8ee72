"""Which runs are needed, which of them exist, and what the others cost."""

__all__ = [
    "cost",
    "plan",
    "planner",
    "run_source",
]
