"""The simulated GPU: memory, contexts, streams, modules and launches."""
