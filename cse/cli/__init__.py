"""The `cse` command: one module for each subcommand."""

__all__ = [
    "app",
    "exit",
    "ledgers",
    "listing",
    "loader",
    "model_options",
    "options",
    "screen",
    "sweep_options",
    "table_text",
]
