"""Everything that a report says of a sweep, as data."""
