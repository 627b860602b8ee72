"""What a table tells at each scale, for its CPU-seconds."""
