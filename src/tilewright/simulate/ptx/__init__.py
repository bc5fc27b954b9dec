"""PTX text to a syntax tree and back. This package does not know what instructions do."""

from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.ptx.printing import to_text

__all__ = ["parse", "to_text"]
