"""The command line: one file a subcommand, which parses and calls, and nothing more."""
