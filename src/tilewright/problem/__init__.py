"""What is multiplied: dtypes, problems, and the canonical answer. Nothing here knows a device."""
