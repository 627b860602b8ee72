"""A static site of published tables: a wall with a card for each, and a page for each, which work offline."""

__all__ = ()
