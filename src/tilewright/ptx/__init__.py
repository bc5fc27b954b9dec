"""PTX text to syntax tree and back; knows no instruction's meaning."""

from tilewright.ptx.parser import parse
from tilewright.ptx.printing import to_text

__all__ = ["parse", "to_text"]
