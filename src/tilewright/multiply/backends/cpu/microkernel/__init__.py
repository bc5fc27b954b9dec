"""Register tiles: `tile` emits the loops, and a file for each family of instructions the step."""
