"""Predicts the time of a launch on a GPU that is not present."""
