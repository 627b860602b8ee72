"""Reader for bundles, the files of `cse bundle`. Format, header and records are checked as those of a stranger."""

__all__ = ["errors", "header", "reader"]
