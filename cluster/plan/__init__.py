"""Plans sweeps: which runs are needed, which of them exist already, and what the others cost."""

__all__ = [
    "cost",
    "plan",
    "planner",
    "run_source",
]
