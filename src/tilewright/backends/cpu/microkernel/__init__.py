"""Register tiles: one file a family states how one step accumulates; `tile` lays it out."""
