"""Which runs are needed, which of them exist, and what the others cost."""
