"""Products larger than memory: C in tiles that stay while panels of A and B stream through them."""
