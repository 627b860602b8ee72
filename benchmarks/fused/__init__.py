"""Many SimCSE runs of one encoder's shape as one batched model: a table's rows and seeds in the launches of one run."""
