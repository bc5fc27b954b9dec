"""The page of the intrinsics, from their records: `make docs` writes it."""

from pathlib import Path

from tilewright.gpu.documentation import page
from tilewright.gpu.intrinsics import records

PAGE = Path(__file__).resolve().parents[1] / "intrinsics.md"

if __name__ == "__main__":
    PAGE.write_text(page(records()), encoding="utf-8")
