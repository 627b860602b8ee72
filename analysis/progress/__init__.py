"""How far sweeps are, read from the ledger alone."""
