"""Notebooks: the example, the cell magics, and a simulated GPU that lasts across cells."""

from __future__ import annotations

import atexit
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import DeviceError
from tilewright.simulate.device.installed_gpu import installed_gpu

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "first_hour.ipynb"
Cell = Callable[[str], list[dict[str, str]]]


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """Runs a cell in a fresh shell of IPython; returns its displays, and raises its errors."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="not run: IPython is not installed")
    from IPython.utils.capture import capture_output

    shell = interactive.InteractiveShell.instance()
    shell.history_manager.enabled = False

    def run(text: str) -> list[dict[str, str]]:
        with capture_output() as captured:
            done = shell.run_cell(text, store_history=True)
        done.raise_error()
        format_ = shell.display_formatter.format
        return [output.data for output in captured.outputs] + [format_(value)[0] for value in (done.result,) if value]

    run("%load_ext tilewright")
    yield run
    placed = installed_gpu()
    if placed is not None and placed.started_by is not None:
        placed.started_by.stop()
    interactive.InteractiveShell.clear_instance()
    shell.history_manager.close()
    atexit.unregister(shell.atexit_operations)  # each shell would collect garbage for a second


def failing(text: str) -> tuple[str, object]:
    """The displays of a cell that raises, and its exception."""
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        done = sys.modules["IPython"].get_ipython().run_cell(text)
    return captured.outputs[-1].data["text/plain"], done.error_in_exec


def test_the_example_runs_and_shows_its_results(cell: Cell) -> None:
    pages: list[str] = []
    for part in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if part["cell_type"] == "code":
            pages += [data.get("text/html", "") for data in cell("".join(part["source"]))]
    reported = "\n".join(pages)
    assert (
        reported.count("TW101 error</span>") == 3 and "cell [3]:5" in reported
    )  # a, b and c, at the line that is seen
    assert "no findings in 1 launch of 1 kernel" in reported
    assert "TW301 error</span>" in reported
    assert "18 (4)" in reported and "out[x, y] = a[y, x]" in reported  # 4 to load, 32 to store
    assert "limits on the GPU" in reported and "tiled_transpose" in reported
    assert installed_gpu() is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%%check --nonsense", "(got --nonsense)"),
        ("%%check --gpu a100", "--gpu must name the GPU in place, t4 (got a100)"),
        ("%%check program.py", "SCRIPT must be left out"),
        ("%%check --ignore TW999", "'TW999' must be the code of a finding"),
        ("%%check --format sarif", "--format must be one of text, brief (got 'sarif')"),
        ("%%profile --launch x", "--launch must be a whole number"),
        ("%%profile --limit 'never", "No closing quotation"),
    ],
)
def test_wrong_options_are_reported_in_a_line(cell: Cell, line: str, words: str) -> None:
    from IPython.core.error import UsageError

    cell("import tilewright as tw; s = tw.simulated_gpu('t4').start()")
    with pytest.raises(UsageError) as raised:
        cell(f"{line}\n1")
    assert words in str(raised.value)


KERNEL = """
import numpy as np
from numba import cuda
@cuda.jit
def fill(x):
    i = cuda.grid(1)
    x[i] = i
"""


def test_a_cell_without_a_gpu_in_place_has_its_own(cell: Cell) -> None:
    cell(KERNEL)
    (shown,) = cell("%%check --gpu t4 --format brief\nfill[1, 32](np.zeros(20))")
    assert "cell [2]:6: TW101 error" in shown["text/plain"]
    assert installed_gpu() is None
    (shown,) = cell("%%profile --gpu t4\nfill[1, 32](np.zeros(32))")
    assert "as on NVIDIA T4" in shown["text/plain"]
    (shown,) = cell("%%check --ignore TW101\nfill[1, 32](np.zeros(20))")
    assert "no findings, 1 suppressed" in shown["text/html"]


def test_memory_of_earlier_cells_counts_as_written_and_an_error_keeps_the_report(cell: Cell) -> None:
    cell(KERNEL + "import tilewright as tw; s = tw.simulated_gpu('t4'); s.start(); d = cuda.device_array(32)")
    cell(KERNEL.replace("x[i] = i", "x[i] += 1"))
    (shown,) = cell("%%check\nfill[1, 32](d)")
    assert shown["text/plain"].startswith("no findings")
    shown, raised = failing("%%profile\nfill[1, 32](d)\n1 / 0")
    assert "fill  grid 1x1x1" in shown and isinstance(raised, ZeroDivisionError)
    cell("fill[1, 32](d)")
    placed = installed_gpu()
    assert placed is not None and placed.observers == () and placed.memory.red_zones is False


def test_a_session_that_starts_again_is_empty() -> None:
    from numba import cuda

    first, second = tw.simulated_gpu("t4", check=True), tw.simulated_gpu("a100")
    device = first.start()
    assert installed_gpu() is device and first.findings == () == device.findings
    again = first.start()
    assert device.closed and installed_gpu() is again
    assert second.start().record.key == "a100" and again.closed
    with tw.simulated_gpu("l4") as inner:
        assert installed_gpu() is inner
        with pytest.raises(DeviceError, match="must be for the installed simulated GPU"):
            second.stop()
    assert cuda.to_device(np.arange(3)).copy_to_host().tolist() == [0, 1, 2]
    for session in (second, second, first):  # an ended session is not ended again
        session.stop()
    assert installed_gpu() is None


def test_a_session_decorates_a_function_and_is_used_again() -> None:
    session = tw.simulated_gpu("t4")

    @session
    def name() -> str:
        placed = installed_gpu()
        return "" if placed is None else placed.record.key

    assert [name(), name()] == ["t4", "t4"]
    with session, pytest.raises(DeviceError, match="must end before it starts again"):
        session.__enter__()
    assert installed_gpu() is None


def test_memory_that_earlier_cells_may_have_written_is_not_reported(cell: Cell) -> None:
    cell(
        KERNEL + "import tilewright as tw; tw.simulated_gpu('t4').start(); d, e = (cuda.device_array(48) for _ in '12')"
    )
    cell(KERNEL.replace("fill", "begin"))
    check = "%%check --format brief\nbegin[1, 32](d[:])"
    assert "TW501" in cell("%%check --format brief\nfill[1, 32](d)")[0]["text/plain"]
    assert "TW501" in cell("%%check --format brief\nfill[1, 32](d)")[0]["text/plain"]  # the same one again
    cell("fill[1, 48](d)")
    assert cell(check)[0]["text/plain"].startswith("no findings")  # `fill` has written the rest
    assert "TW501" in cell(check.replace("d[:]", "e"))[0]["text/plain"]
    cell("del d; d = cuda.device_array(48)")
    assert "TW501" in cell(check)[0]["text/plain"]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("1 / 0", "ZeroDivisionError", "----> 2 1 / 0"),
        ("x = = 1", "SyntaxError", "x = = 1"),
        ("import tilewright\nraise tilewright.KernelError('mine')", "KernelError", "mine"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("%no_such_magic", "UsageError", "no_such_magic"),
    ],
)
def test_a_cell_that_raises_fails_once_below_its_report(
    cell: Cell, capsys: pytest.CaptureFixture[str], text: str, kind: str, words: str
) -> None:
    done = sys.modules["IPython"].get_ipython().run_cell(f"%%check --ignore TW601\n{text}")
    assert type(done.error_in_exec).__name__ == kind
    streams = capsys.readouterr()
    reported = re.sub(r"\x1b\[[0-9;]*m", "", streams.out + streams.err)
    stopped = "; interrupted, the program was not checked to its end" * (kind == "KeyboardInterrupt")
    assert " ".join(reported.split()).startswith(f"no findings: no kernel was launched{stopped}")
    assert words in reported and "notebook.py" not in reported
    shown = kind not in ("SyntaxError", "UsageError")  # with their frames
    assert reported.count("(most recent call last)") == shown and ("# %%check --ignore TW601" in reported) == shown


def test_help_is_a_cell_s_only_output(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    from IPython.core.error import UsageError

    shell = sys.modules["IPython"].get_ipython()
    assert shell.run_cell("%check --help").success
    assert "--ignore CODES" in capsys.readouterr().out
    with pytest.raises(UsageError, match="must be the first line of a cell, %%profile"):
        cell("%profile")


STOPPED = """
import numpy as np
from numba import cuda
@cuda.jit
def spin(x):
    while x[0] == 0:
        x[1] += 1
"""


def test_a_launch_that_never_ended_has_no_findings_of_removed_code(cell: Cell) -> None:
    cell(STOPPED)
    for magic, words in (("check", "no findings in 1 launch"), ("profile", "spin: its launch has no profile")):
        reported, raised = failing(f"%%{magic} --limit 0.2\nspin[1, 1](np.zeros(2))")
        assert "LAUNCH_TIMEOUT" in str(raised)
        assert words in reported and "ipykernel" not in reported and "ipython-input" not in reported


def test_a_gpu_describes_itself_and_stops() -> None:
    session = tw.simulated_gpu("t4")
    assert repr(session) == "<simulated_gpu('t4'), not in place>"
    device = session.start()
    assert (repr(session), repr(device)) == ("<simulated_gpu('t4'), in place>", "<NVIDIA T4, simulated>")
    device.stop()
    device.stop()
    assert installed_gpu() is None and repr(device) == "<NVIDIA T4, simulated, ended>"
    with tw.simulated_gpu("t4") as inner, pytest.raises(DeviceError, match=r"from `start\(\)`"):
        inner.stop()
    with pytest.raises(tw.TilewrightError, match="a GPU must be one of v100"):
        tw.simulated_gpu("t5")


def test_arrays_of_the_gpu_in_place_are_refused_with_advice() -> None:
    from numba import cuda

    with tw.simulated_gpu("t4"):
        x = cuda.to_device(np.zeros(4))
        with pytest.raises(tw.TilewrightError, match=r"pass its `copy_to_host\(\)`, or launch the kernel as numba"):
            tw.profile(cuda.jit(lambda out: None), 1, 1, (x,))
