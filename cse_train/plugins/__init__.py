"""Methods and suites of the user's own: finds them, follows their imports, and copies them to workers."""

__all__ = ["config", "options", "registry", "snapshot", "source", "trainer"]
