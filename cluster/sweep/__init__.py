"""The driver of a sweep: claim a run, train it on Tune, record it."""

__all__ = ["events", "ledger_retry", "retention", "run_sweep"]
