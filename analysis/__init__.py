"""From the ledger to the page; imports neither torch nor Ray."""
