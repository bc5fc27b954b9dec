"""The host's side: machine code and its cache, processes, configuration, progress."""
