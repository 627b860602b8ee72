"""The `cse` command: one module for each subcommand."""

__all__ = ["app", "exit", "ledgers", "listing", "loader", "options", "screen", "sweep_options", "table_text"]
