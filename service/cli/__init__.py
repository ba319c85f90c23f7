"""The subcommands: modules with `configure(parser)` and `execute(command, arguments)`."""
