"""The Tune trainable ("slot") that keeps a Ray Train worker group warm over many runs."""

__all__ = ["group_api", "slot"]
