"""Everything that a report says of a sweep, as data."""

__all__ = ["alignment", "budget", "cost", "learning_curves", "looks", "rating_groups", "study"]
