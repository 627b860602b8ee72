"""What the encoder does on a card alone."""

__all__ = ["cast_weights", "compilers", "fused_attention", "fused_norm"]
