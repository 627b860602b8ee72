"""The driver of a sweep: claim a run, train it on Tune, record it."""
