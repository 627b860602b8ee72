"""Results as files: what a ledger has of some sweeps, written so that another ledger, or a reader, can take it over."""
