"""A space's runs, from the ledger to a table."""
