"""Launch targets, a module each: what they need, what they render, how they are submitted."""
