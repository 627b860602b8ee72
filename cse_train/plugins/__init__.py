"""A user's methods and suites from outside of the repository: where they are, what they import, how they travel."""

__all__ = ["apart", "config", "faults", "options", "registry", "snapshot", "source", "trainer"]
