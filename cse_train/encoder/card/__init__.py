"""Code of the encoder that runs on GPUs only."""

__all__ = ["cast_weights", "compilers", "fused_attention", "fused_norm"]
