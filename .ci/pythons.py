"""Try the project in fresh environments, one for each interpreter at hand, and say what broke.

    pythons.py tested        with the releases of constraints.txt, as `make` installs them
    pythons.py newest        with what pip chooses today; names releases that broke a step, and the fate of bounds
    pythons.py constraints   as `newest`; writes constraints.txt if every step passed

More arguments are interpreters; without them those of `VERSIONS` are looked for on PATH and under pyenv.
`--beside VENV` leaves out the version of an environment that has passed all tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
VERSIONS = ("3.11", "3.12", "3.13")
_HEADER = """\
# The releases that `make` installs: the newest with which `make constraints` found nothing broken.
# pyproject.toml states what works; these lines decide what is installed. Commit a change only after `make test` passed.
"""
_RIGHT = """\
import numpy as np
from numba import cuda


@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
doubled[4, 32](x, out)
assert (out == 2 * x).all()
"""
_MATMUL = """\
import numpy as np
import tilewright as tw

a = np.arange(12).reshape(3, 4)
assert (tw.matmul(a, a.T) == a @ a.T).all()
"""


@dataclass(frozen=True)
class Step:
    """Something that must work: a command, run by the environment's interpreter."""

    name: str
    arguments: tuple[str, ...]
    status: int = 0
    output: str = ""  #: A pattern for all of standard output.


_TOOL = ("-m", "tilewright")
STEPS = (
    Step("ladder", (*_TOOL, "ladder", "--sizes", "64", "--kernels", "three_loops,cpu,naive,tiled,results_8")),
    Step("check", (*_TOOL, "check", "--format", "brief", "wrong.py"), status=1, output="wrong.py:9: TW101 .*"),
    Step("profile", (*_TOOL, "profile", "--json", "right.py"), output=r"\{.*\}\s*"),
    Step("predict", (*_TOOL, "predict", "--json", "right.py"), output=r"\{.*\}\s*"),
    Step("matmul", ("-c", _MATMUL)),
    Step("tests", (str(ROOT / ".ci" / "quick.py"), "--smoke")),
)
BASE = Step("base", (str(ROOT / "tests" / "unit" / "base_commands.py"),))


@dataclass(frozen=True)
class Result:
    """How a step ended: what it said if it failed, and how long it took."""

    step: Step
    said: str
    seconds: float

    def __str__(self) -> str:
        return f"{'FAILED' if self.said else 'ok'} {self.seconds:.0f} s"


class Environment:
    """A fresh virtual environment in a folder, with programs to try beside it."""

    def __init__(self, interpreter: Path, folder: Path) -> None:
        self.folder = folder
        _call([str(interpreter), "-m", "venv", str(folder / "venv")])
        self.python = str(folder / "venv" / "bin" / "python")
        (folder / "right.py").write_text(_RIGHT)
        (folder / "wrong.py").write_text(_RIGHT.replace("i < x.size", "i <= x.size"))

    def install(self, *requirements: str, constraints: Path | None = None) -> str:
        """Install, with the releases of a file; returns what pip said if it failed."""
        given = {f"PIP_{kind}": constraints.name for kind in ("CONSTRAINT", "BUILD_CONSTRAINT") if constraints}
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        done = subprocess.run(
            [*pip, *requirements], cwd=ROOT, env=os.environ | given, capture_output=True, text=True, check=False
        )
        return _tail(done.stderr) if done.returncode else ""

    def releases(self, with_backend: bool = False) -> dict[str, str]:
        """The installed packages and their versions, without this one and the installers."""
        if with_backend:  # pip installs it elsewhere
            self.install("hatchling", "editables")
        rows = json.loads(_call([self.python, "-m", "pip", "list", "--format", "json"]))
        found = {canonical(row["name"]): row["version"] for row in rows}
        return {name: version for name, version in found.items() if name not in {"pip", "setuptools", "tilewright"}}

    def run(self, step: Step) -> Result:
        """Run a step."""
        start = time.monotonic()
        own = {"TILEWRIGHT_CACHE_DIR": str(self.folder.parent / "cache"), "PYTHONPATH": ""}
        done = subprocess.run(
            [self.python, *step.arguments],
            cwd=self.folder,
            env=os.environ | own,
            capture_output=True,
            text=True,
            check=False,
        )
        right = done.returncode == step.status and re.fullmatch(step.output or ".*", done.stdout, re.DOTALL)
        said = "" if right else f"exit status {done.returncode}\n{_tail(done.stdout)}\n{_tail(done.stderr)}"
        return Result(step, said, time.monotonic() - start)


def canonical(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _call(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def interpreters(given: Sequence[str], beside: str | None) -> dict[str, Path]:
    """Version -> interpreter. One that is not here is named, and left out."""
    left_out = _version(Path(beside) / "bin" / "python") if beside else None
    found = {}
    for name in given or VERSIONS:
        path = next((path for path in _places(name) if _version(path)), None)
        version = path and _version(path)
        if not path or not version:
            print(f"Python {name}: not on PATH and not under pyenv; not tried", flush=True)
        elif left_out and version.split(".")[:2] == left_out.split(".")[:2]:
            print(f"Python {version}: has {beside}, where all tests run; not tried here", flush=True)
        else:
            found[version] = path
    return found


def _places(name: str) -> Iterable[Path]:
    """Where an interpreter may be that is given as a path, a command or a version."""
    for command in (name, f"python{name}"):
        if path := shutil.which(command):
            yield Path(path)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{name}*/bin/python"), reverse=True)


def _version(python: Path) -> str | None:
    """An interpreter's version; None if it does not run, like pyenv's shims of versions that are not chosen."""
    code = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def tried(version: str, python: Path, folder: Path, constrained: bool) -> tuple[Environment, list[Result]]:
    """An environment with all extras, and how each step ended in it and in one with the base alone."""
    results: list[Result] = []

    def note(result: Result) -> Result:
        results.append(result)
        print(f"Python {version}: {result.step.name} {result}", flush=True)
        return result

    (folder / "all").mkdir()
    (folder / "base").mkdir()
    whole, base = Environment(python, folder / "all"), Environment(python, folder / "base")
    for environment, steps, wanted in ((whole, STEPS, ("--editable", ".[all]")), (base, (BASE,), (".",))):
        start = time.monotonic()
        said = environment.install(*wanted, constraints=CONSTRAINTS if constrained else None)
        if note(Result(Step("install", wanted), said, time.monotonic() - start)).said:
            continue
        for step in steps:
            note(environment.run(step))
    return whole, results


def culprits(environment: Environment, failed: Sequence[Result], tested: dict[str, str]) -> list[str]:
    """Which releases newer than the tested ones broke which steps: with the tested one the step passes."""
    newer = {name: version for name, version in environment.releases().items() if version != tested.get(name, version)}
    said = []
    for name, version in newer.items():
        environment.install("--no-deps", f"{name}=={tested[name]}")
        for result in failed:
            if not environment.run(result.step).said:
                said.append(f"{name} {version} broke {result.step.name}: with {tested[name]} it passes")
        environment.install("--no-deps", f"{name}=={version}")
    listed = ", ".join(f"{name} {version} ({tested[name]} was tested)" for name, version in newer.items())
    return said or [f"no single package is the cause; newer than tested: {listed or 'none'}"]


def bounds(environment: Environment) -> list[str]:
    """Whether the upper bounds of pyproject.toml are still needed: what fails with each package's newest release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said, have = [], environment.releases()
    for requirement in (row for extra in project["optional-dependencies"].values() for row in extra if "<" in row):
        name = canonical(re.split(r"[\[<>=!~ ;]", requirement)[0])
        environment.install("--no-deps", "--upgrade", name)
        newest = environment.releases()[name]
        broken = [step.name for step in STEPS if newest != have[name] and environment.run(step).said]
        why = f"with {newest} fails: {', '.join(broken)}" if broken else f"{newest} passes every step"
        said.append(f"{requirement}: {why}")
        environment.install("--no-deps", f"{name}=={have[name]}")
    return said


def merged(found: dict[str, dict[str, str]]) -> str:
    """Lines of constraints for releases by interpreter; markers where versions of Python have different ones.

    >>> print(merged({"3.11": {"a": "1", "b": "1"}, "3.12": {"a": "1", "b": "2"}}))
    a==1
    b==1; python_version < "3.12"
    b==2; python_version >= "3.12"
    """
    lines = []
    for name in sorted({name for releases in found.values() for name in releases}):
        groups: list[tuple[str, str]] = []  # the first Python of each release
        for python, releases in found.items():
            if name in releases and (not groups or groups[-1][1] != releases[name]):
                groups.append((python, releases[name]))
        for (python, version), end in zip(groups, [*(row[0] for row in groups[1:]), None], strict=True):
            limits = [f'python_version >= "{python}"'] * (python != groups[0][0])
            limits += [f'python_version < "{end}"'] * (end is not None)
            lines.append(f"{name}=={version}" + ("; " + " and ".join(limits) if limits else ""))
    return "\n".join(lines)


def tested(version: str, constraints: Path | None = None) -> dict[str, str]:
    """The releases of constraints.txt, or of another such file, for a version of Python."""
    found = {}
    for line in (constraints or CONSTRAINTS).read_text(encoding="utf-8").splitlines():
        pin, _, marker = line.partition(";")
        limits = re.findall(r'(<|>=) "3\.(\d+)"', marker)
        minor = int(version.split(".")[1])
        if "==" in pin and all(minor < int(end) if sign == "<" else minor >= int(end) for sign, end in limits):
            name, release = pin.strip().split("==")
            found[name] = release
    return found


def table(rows: dict[str, list[Result]]) -> str:
    """A line for each interpreter, a column for each step."""
    lines = [["Python", *(result.step.name for result in max(rows.values(), key=len))]]
    lines += [[version, *map(str, results)] for version, results in rows.items()]
    return "\n".join("".join(cell.ljust(14) for cell in line).rstrip() for line in lines)


def newest(version: str, environment: Environment, results: Sequence[Result]) -> list[str]:
    """What broke with the newest releases, and by which."""
    failed = [result for result in results if result.said and result.step in STEPS]
    return [f"Python {version}: {line}" for line in culprits(environment, failed, tested(version))] if failed else []


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tested", "newest", "constraints"))
    parser.add_argument("--beside", metavar="VENV")
    parser.add_argument("pythons", nargs="*")
    given = parser.parse_args()
    here = interpreters(given.pythons, given.beside)
    rows: dict[str, list[Result]] = {}
    releases: dict[str, dict[str, str]] = {}
    said: list[str] = []
    for version, python in here.items():
        with tempfile.TemporaryDirectory() as folder:
            environment, results = tried(version, python, Path(folder), given.what == "tested")
            rows[version] = results
            said += [f"Python {version}: {row.step.name} failed: {row.said}" for row in results if row.said]
            if given.what != "tested":
                said += newest(version, environment, results)
            if given.what == "newest" and version == list(here)[-1] and not results[0].said:
                print("\n".join(["Upper bounds:", *bounds(environment)]), flush=True)
            if given.what == "constraints":
                releases[".".join(version.split(".")[:2])] = environment.releases(with_backend=True)
    if rows:
        print("\n".join([table(rows), *said]))
    if given.what == "constraints" and not said:
        if tuple(releases) != VERSIONS:
            got = ", ".join(releases) or "none"
            sys.exit(f"constraints.txt needs Python {', '.join(VERSIONS)} (got {got}); nothing is written")
        CONSTRAINTS.write_text(f"{_HEADER}{merged(releases)}\n", encoding="utf-8")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
