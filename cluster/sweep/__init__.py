"""Driver of a sweep: claims runs in the ledger, trains them with Ray Tune, and records how they end."""

__all__ = ["events", "ledger_retry", "retention", "run_sweep"]
