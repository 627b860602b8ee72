"""Time as a ledger or a table grows."""
