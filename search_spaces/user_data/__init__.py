"""Files of a user's own in settings and spaces: each gets a name, and its path is kept separately."""

__all__ = ["in_space", "places", "references", "trainer", "written"]
