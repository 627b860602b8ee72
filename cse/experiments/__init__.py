"""From a space to a finished sweep."""
