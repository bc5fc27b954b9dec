"""Simulates a product on a cluster: its time, its traffic, and its bottleneck."""
