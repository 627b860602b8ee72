"""`cse site`: a static site of published tables, with an overview page and a page for each table; works offline."""

__all__ = ()
