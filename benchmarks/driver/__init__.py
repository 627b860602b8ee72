"""The cost of a trial, and of the driver beside it."""
