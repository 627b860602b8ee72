"""The `cse` command line: one module for each subcommand, and the options that they share."""

__all__ = [
    "app",
    "exit",
    "ledgers",
    "listing",
    "loader",
    "model_options",
    "options",
    "screen",
    "status_text",
    "sweep_options",
    "sweeps",
    "table_text",
]
