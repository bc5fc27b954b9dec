"""Shadow memory: which bytes were allocated and written, by which thread and when."""
