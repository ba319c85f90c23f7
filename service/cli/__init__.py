"""The subcommands: each module has `configure(parser)` and `execute(command, arguments)`, the exit status."""
