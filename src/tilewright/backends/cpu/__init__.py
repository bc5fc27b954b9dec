"""Products on the host's processor. So far its plainest one, the three loops of S5."""
