"""Shadow memory: what has been allocated, written, by whom and when."""
