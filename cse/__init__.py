"""The face: what a person types or imports, put together from the other four packages."""
