"""Real sweeps, hurt at a random moment and started again: what the ledger, the study and the files hold then."""
