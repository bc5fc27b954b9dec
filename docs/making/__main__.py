"""Write into the pages what their examples print now: `make examples`; `python docs/making PAGE ...` for a few."""

import contextlib
import sys
import tempfile
from pathlib import Path

from examples import RUNNING, Examples, exact, languages, pages


def main() -> None:
    """Run the examples of the pages, and write those whose output differs from what they show."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        if not languages(page) & {*RUNNING}:
            continue
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            fresh = Examples(exact=exact(page)).refreshed(text)
        if fresh != text:
            Path(f"{page}.new").write_text(fresh, encoding="utf-8")
            Path(f"{page}.new").replace(page)
            print(page)


if __name__ == "__main__":
    main()
