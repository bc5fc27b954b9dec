"""Run the tests that need torch, Triton, CuPy, CuTe or JAX in a fresh environment, first without numba-cuda.

    frontends.py tested         with the releases of constraints-frontends.txt
    frontends.py newest         with what pip chooses today
    frontends.py constraints    as `newest`; writes constraints-frontends.txt if every test passed

More arguments are interpreters. The first for which the registry has these packages is used. They are not in the
environment of `make test`: torch's wheel asks for parts of CUDA of another release than the newest, and takes 6 GB.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pythons import ROOT, Environment, interpreters

CONSTRAINTS = ROOT / "constraints-frontends.txt"
#: Versions of Python, in the order in which the packages are looked for: wheels for the newest come last.
VERSIONS = ("3.12", "3.13", "3.11")
#: Packages whose tests run here, by the names that tests import.
PACKAGES = ("torch", "triton", "cupy", "cutlass", "jax")
#: Which are installed, in turn. Torch first: pip would try its older releases until one agrees with the newest CUDA.
_FIRST, _WITHOUT_NUMBA, _WHOLE = ("torch",), ("--editable", ".[triton,cupy,cute,test]", "jax"), ("--editable", ".[all]")
_ASKS = re.compile(r"""\b(?:importorskip|find_spec)\(\s*["']([\w.]+)""")
_HEADER = """\
# The releases that `make frontends` installs, written by `make constraints`; constraints.txt has those of `make`.
"""


def asked_for(test: Path) -> set[str]:
    """The packages without which a test file skips tests."""
    return {name.split(".")[0] for name in _ASKS.findall(test.read_text(encoding="utf-8"))}


def chosen() -> list[str]:
    """The test files with tests that need one of the packages."""
    found = (path for path in sorted((ROOT / "tests").rglob("test_*.py")) if asked_for(path) & set(PACKAGES))
    return [path.relative_to(ROOT).as_posix() for path in found]


def made(given: list[str], constraints: Path | None, folder: Path) -> Environment | None:
    """An environment of the first Python for which the registry has the packages; without numba-cuda.

    Raises SystemExit: pip failed, but not for the lack of a package.
    """
    for version, python in interpreters(given or VERSIONS, None).items():
        start = time.monotonic()
        (folder / version).mkdir()
        environment = Environment(python, folder / version)
        said = "" if constraints else environment.install(*_FIRST)
        said = said or environment.install(*_WITHOUT_NUMBA, constraints=constraints)
        if not said:
            print(f"Python {version}: front ends installed in {time.monotonic() - start:.0f} s", flush=True)
            return environment
        lacking = re.search("No matching distribution found for (.*)", said)
        if not lacking:
            sys.exit(f"Python {version}: pip failed: {said}")
        print(f"Python {version}: the registry lacks {lacking[1]}; not tried", flush=True)
    return None


def passed(environment: Environment, what: str) -> bool:
    """Whether the tests pass; pytest's own output says which do not."""
    start, options = time.monotonic(), ["-p", "no:cacheprovider", "-n", "auto", "-m", "not volume"]
    done = subprocess.run([environment.python, "-m", "pytest", *options, *chosen()], cwd=ROOT, check=False)
    right = done.returncode == 0
    print(f"{what}: {'ok' if right else 'FAILED'} {time.monotonic() - start:.0f} s", flush=True)
    return right


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tested", "newest", "constraints"))
    parser.add_argument("pythons", nargs="*", help=f"default: {', '.join(VERSIONS)}")
    given = parser.parse_args()
    constraints = CONSTRAINTS if given.what == "tested" else None
    with tempfile.TemporaryDirectory() as folder:
        environment = made(given.pythons, constraints, Path(folder))
        if environment is None:
            print("no Python here for which the registry has the front ends' packages: their tests did not run")
            return 0
        right = passed(environment, "front ends without numba-cuda")
        if said := environment.install(*_WHOLE, constraints=constraints):
            sys.exit(f"pip failed: {said}")
        right &= passed(environment, "front ends beside numba-cuda")
        if right and given.what == "constraints":
            rows = (f"{name}=={release}\n" for name, release in sorted(environment.releases(with_backend=True).items()))
            CONSTRAINTS.write_text(_HEADER + "".join(rows), encoding="utf-8")
    return not right


if __name__ == "__main__":
    sys.exit(main())
