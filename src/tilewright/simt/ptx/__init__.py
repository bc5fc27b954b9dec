"""PTX text to syntax tree and back; knows no instruction's meaning."""

from tilewright.simt.ptx.parser import parse
from tilewright.simt.ptx.printing import to_text

__all__ = ["parse", "to_text"]
