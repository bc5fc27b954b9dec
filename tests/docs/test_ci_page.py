"""The workflow and the hook that the page about CI shows: they are YAML, and their commands do what the page says."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from examples import ROOT, printed

from tilewright.cli.app import program_command

yaml = pytest.importorskip("yaml", reason="not run: PyYAML is not installed")
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
WORKFLOW, CONFIGURATION = (
    yaml.load(text, yaml.BaseLoader) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
)
(PROGRAM,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S)
STEPS = [step["run"] for step in WORKFLOW["jobs"]["kernels"]["steps"] if "run" in step]


def run(command: str, folder: Path) -> tuple[int, str]:
    """(status, output) of a command of CI; of pytest in its own process."""
    name, *arguments = shlex.split(command)
    if name == "tilewright":
        with contextlib.chdir(folder):
            return printed([name, *arguments], program_command())[::-1]
    assert name == "pytest"
    ran = subprocess.run(
        [sys.executable, "-m", name, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_workflows_commands_pass_and_fail(tmp_path: Path) -> None:
    """Its steps, except installations, with the corrected program; then the check with the original program."""
    install, *commands = STEPS
    assert install == "pip install './tilewright[gpu]' pytest" and len(commands) == 2
    (tmp_path / "program.py").write_text(PROGRAM.replace("i <= x.size", "i < x.size"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_program.py").write_text("def test_it():\n    import program\n")
    (tmp_path / "tests" / "conftest.py").write_text("import sys\n\nsys.path.insert(0, '.')\n")
    for command in commands:
        status, screen = run(command, tmp_path)
        assert status == 0, screen
    (tmp_path / "program.py").write_text(PROGRAM)
    status, screen = run(commands[0], tmp_path)
    line = 1 + PROGRAM.splitlines().index("        out[i] = 2 * x[i]")
    assert status == 1 and f"::error file=program.py,line={line}" in screen, screen


def test_the_hook_is_one_that_the_repository_offers_and_fails(tmp_path: Path) -> None:
    (offered,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    ((hook,),) = (repository["hooks"] for repository in CONFIGURATION["repos"])
    assert hook["id"] == offered["id"] and not offered["pass_filenames"]
    (tmp_path / "program.py").write_text(PROGRAM)
    status, screen = run(" ".join([offered["entry"], *hook["args"]]), tmp_path)
    assert status == 1 and "TW101 error: load of 4 bytes outside every allocation" in screen, screen
