"""Public data, fetched from where it is published into the folder that `--data` names (`cse data`)."""

__all__ = ()
