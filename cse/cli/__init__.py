"""The `cse` command: one module for each subcommand."""
