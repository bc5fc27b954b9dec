"""Measured rates, the ladder, and reports of everything."""
