"""Tilewright in test suites: options of pytest."""
