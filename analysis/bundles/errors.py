"""What can be wrong with a bundle."""


class BundleError(ValueError):
    """A file cannot be taken over, or not be written: one line with the rule, `name=value` and what to do."""
