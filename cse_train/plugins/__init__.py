"""A user's methods and suites from outside of the repository: where they are, what they import, how they travel."""

__all__ = ["apart", "config", "faults", "first_fields", "options", "registry", "snapshot", "source", "trainer"]
