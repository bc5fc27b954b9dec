"""Analyses of a kernel's PTX: where values come from, how far indices go, and defects that the text alone shows."""
