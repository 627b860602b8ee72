"""Error of reading or writing bundles."""


class BundleError(ValueError):
    """Bundle that cannot be imported or written; the message is one line with the rule, `name=value` and what to do."""
