"""Products as mathematics: dtypes, algebras, expressions and the canonical result. Nothing here knows a device."""
