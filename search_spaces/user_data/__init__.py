"""Files of a user's own where settings and spaces name them: each becomes a name, and where it lies stands apart."""

__all__ = ["in_space", "places", "references", "trainer", "written"]
