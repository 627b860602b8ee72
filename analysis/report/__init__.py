"""A study as one HTML page that works offline."""
