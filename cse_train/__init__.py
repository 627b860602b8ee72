"""One run: torch and transformers, without Ray."""
