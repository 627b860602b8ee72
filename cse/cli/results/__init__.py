"""Commands that read the ledger."""
