"""Time and memory as a ledger or a table grows."""
