"""Observers of launches: instruments, checks, profiles, predicted times."""
