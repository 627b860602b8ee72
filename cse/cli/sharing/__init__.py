"""Commands that take results out of a ledger, and into one."""
