"""Command lines for an installation without extras, and how each ends; this file itself runs them there.

    python base_commands.py --json    what each gave, as JSON: status, output and errors
    python base_commands.py           the command lines that ended otherwise; exit status 1 if there are any

It imports nothing beyond the base, as tests and `make pythons` run it in environments that have no more.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

#: How standard error ends if an extra is missing; by what name pip finds the project depends on the installation.
_GPU, _OPENCL = (rf"is not installed.*; run: .*pip install .*\[{extra}\].*\n" for extra in ("gpu", "opencl"))
#: Command line -> exit status, and how its standard error ends; "" if it succeeds. Every command has a line.
COMMANDS = {
    "ladder --sizes 32": (0, ""),
    "ladder --sizes 16 --kernels three_loops,tiled --json": (0, ""),
    "ladder --sizes 16 --kernels tiled": (2, _GPU),
    "ladder --sizes 16 --device opencl": (2, _OPENCL),
    "matmul a.npy a.npy -o c.npy": (0, ""),
    "matmul a.npy a.npy -o d.npy --kernels tiled": (2, _GPU),
    "matmul a.npy a.npy -o d.npy --device opencl": (2, _OPENCL),
    "matmul a.npy a.npy -o d.npy --device simulated": (2, _GPU),
    "kernels": (0, ""),
    "run program.py": (2, _GPU),
    "run app.cu": (2, _GPU),
    "check program.py": (2, _GPU),
    "check app.cu": (2, _GPU),
    "check --codes": (0, ""),
    "profile program.py": (2, _GPU),
    "profile app.cu": (2, _GPU),
    "predict program.py": (2, _GPU),
    "predict --sizes 64": (2, _GPU),
    "bench --sizes 8 --samples 1 --output rates.jsonl": (0, ""),
    "bench --table S12": (2, _GPU),
    "compare rates.jsonl rates.jsonl": (0, ""),
    "report rates.jsonl": (0, ""),
    "report -o page.html": (2, _GPU),
    "tune --sizes 128 --device cpu --accept-noise": (0, ""),
    "tune --sizes 32": (2, _GPU),
    "devices": (0, ""),
    "devices --json": (0, ""),
    "gpus": (0, ""),
    "occupancy --registers 32 --block 256": (0, ""),
    "cache": (0, ""),
    "ptx-support": (0, ""),
}

#: Exit status, output and errors.
Outcome = tuple[int, str, str]


def outcomes() -> dict[str, Outcome]:
    """Status, output and errors of each command line, run one after the other in a folder of their own."""
    import numpy as np

    from tilewright.simulate.programs import toolkits

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TILEWRIGHT_CACHE_DIR"] = folder
        Path("program.py").write_text("print('never')")
        Path("app.cu").write_text("int main() {}")
        np.save("a.npy", np.ones((4, 4), np.float32))
        try:
            with mock.patch.object(toolkits, "installed", tuple):  # without a toolkit of the host
                return {line: _outcome(line) for line in COMMANDS}
        finally:
            os.chdir(before)


def _outcome(line: str) -> Outcome:
    from tilewright.cli.main import main

    sys.argv = ["tilewright", *line.split()]
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status: object = None
        try:
            main()
        except SystemExit as leave:
            status = leave.code or 0
    assert isinstance(status, int)
    return status, out.getvalue(), errors.getvalue()


def mistake(line: str, outcome: Outcome) -> str:
    """How a command line ended otherwise than it should; "" if it did not."""
    status, out, errors = outcome
    expected, ending = COMMANDS[line]
    if "Traceback" in errors or "a defect of Tilewright" in errors:
        return f"a defect: {errors}"
    if status != expected or not re.search(f"{ending}$", errors):
        return f"exit status {status} (expected {expected}), with the error {errors!r}"
    return "" if bool(out) == (status == 0) else f"printed {out!r}"


if __name__ == "__main__":
    as_json = sys.argv[1:] == ["--json"]
    given = outcomes()
    if as_json:
        print(json.dumps(given))
    else:
        wrong = {line: text for line, outcome in given.items() if (text := mistake(line, outcome))}
        for line, text in wrong.items():
            print(f"tilewright {line}: {text}", file=sys.stderr)
        sys.exit(bool(wrong))
