"""How long a launch takes on a GPU that is not there."""
