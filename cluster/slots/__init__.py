"""A Tune trainable that keeps a Ray Train worker group warm over many runs."""
