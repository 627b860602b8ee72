"""Data of a report on a sweep: its runs, costs, curves, and figures' content."""

__all__ = ["alignment", "budget", "cost", "learning_curves", "looks", "rating_groups", "study"]
