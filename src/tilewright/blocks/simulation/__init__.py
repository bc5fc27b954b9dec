"""A product on a cluster that need not be there: how long it takes, what it moves, and what limits it."""
