"""What the text of a kernel says: where values come from, how far indices go, and what is wrong by the text alone."""
