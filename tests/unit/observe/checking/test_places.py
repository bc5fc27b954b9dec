"""Every finding of a program names a line of a file of the user."""

from __future__ import annotations

import linecache
import runpy
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.frontends.session import simulated_gpu
from tilewright.programs import Program

HEAD = "import numpy as np\nfrom numba import cuda, vectorize, guvectorize\nones = np.ones(40, np.float32)\n"
#: A program, and the codes and lines (from the end of HEAD) of its findings.
PROGRAMS = {
    "vectorize, in its function": (
        "@vectorize(['float32(float32, float32)'], target='cuda')\n"
        "def quotient(x, y):\n"
        "    return x / y\n"
        "quotient(ones, ones - 1)\n",
        {("TW603", 3)},
    ),
    "vectorize, not decorated": (
        "def quotient(x, y):\n"
        "    return x / y\n"
        "vectorize(['float32(float32, float32)'], target='cuda')(quotient)(ones, ones - 1)\n",
        {("TW603", 2)},
    ),
    "guvectorize": (
        "@guvectorize(['void(float32[:], float32[:], float32[:])'], '(n),()->(n)', target='cuda')\n"
        "def quotients(x, y, out):\n"
        "    for i in range(x.shape[0]):\n"
        "        out[i] = x[i] / y[0]\n"
        "quotients(ones.reshape(4, 10), np.zeros(4, np.float32))\n",
        {("TW603", 4)},
    ),
    "reduce": (
        "@cuda.reduce\ndef strange(a, b):\n    return a / (b - b)\nstrange(ones)\n",
        {("TW603", 4)},
    ),
    "a lambda": (
        "fill = cuda.jit(lambda x: None if cuda.atomic.add(x, cuda.grid(1), 1) else None)\nfill[2, 32](ones)\n",
        {("TW101", 1)},
    ),
    "a kernel from text": (
        "exec('@cuda.jit\\ndef fill(x):\\n    x[cuda.grid(1)] = 2\\n')\nfill[2, 32](ones)\n",
        {("TW101", 3)},
    ),
    "PTX without lines": (
        "text = '''.version 8.0\n.target sm_75\n.address_size 64\n"
        ".visible .entry fill(.param .u64 x) {\n"
        "  .reg .b64 %rd<4>; .reg .b32 %r<2>;\n"
        "  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n"
        "  st.global.u32 [%rd3], %r1; ret;\n}'''\n"
        "given = cuda.to_device(ones)\n"
        "function = cuda.current_context().create_module_ptx(text).get_function('fill')\n"
        "from numba.cuda.dispatcher import LaunchConfig, launch\n"
        "launch(cuda.default_stream(), LaunchConfig(1, 64), function.kernel, given.device_ctypes_pointer)\n",
        {("TW101", 12)},
    ),
}  # fmt: skip


def findings(file: Path) -> Checks:
    checks = Checks()
    with simulated_gpu(observers=[checks]):
        runpy.run_path(str(file), run_name="__main__")
    return checks


@pytest.mark.parametrize("name", PROGRAMS)
def test_findings_name_a_users_line(name: str, tmp_path: Path) -> None:
    text, wanted = PROGRAMS[name]
    file = tmp_path / "program.py"
    file.write_text(HEAD + text)
    found = findings(file).findings
    assert {(one.code, one.line - (HEAD.count("\n") if one.source == str(file) else 0)) for one in found} == wanted
    assert {one.source for one in found} == {"<string>" if name == "a kernel from text" else str(file)}


def test_a_lambda_that_is_checked_alone_has_its_line() -> None:
    fill = lambda x: None if cuda.atomic.add(x, cuda.grid(1), 1) else None  # noqa: E731, RUF034
    (found,) = tw.check(fill, 2, 32, (np.zeros(40, np.float32),))
    assert found.code == "TW101"
    assert (found.source, found.line) == (__file__, fill.__code__.co_firstlineno)


PLAIN = "\nimport numpy as np\nfrom numba import cuda\n@cuda.jit\ndef fill(x):\n    x[cuda.grid(1)] = 2\n"
NAMES = (
    "d\u00e9j\u00e0 vu.py", "\u65e5\u672c.py", "\U0001f600.py", "a b.py", "q\"uote'.py", "back\\slash\\303.py",
    "tab\t.py", "100% #1.py", "name" * 60 + ".py",
)  # fmt: skip


def test_files_of_any_name_are_reported_unchanged(tmp_path: Path) -> None:
    checks = Checks()
    wanted = set()
    with simulated_gpu(observers=[checks]):
        for name in NAMES:
            file = tmp_path / name
            file.write_text(PLAIN + "fill[1, 64](np.zeros(40))\n", encoding="utf-8")
            runpy.run_path(str(file))
            wanted.add((str(file), 6))
    assert {(one.source, one.line) for one in checks.findings} == wanted


def test_comments_in_files_of_any_name_are_read(tmp_path: Path) -> None:
    file = tmp_path / "d\u00e9j\u00e0 vu.py"
    file.write_text(PLAIN.rstrip() + "  # tilewright: ignore[TW101]\nfill[1, 64](np.zeros(40))\n", encoding="utf-8")
    checks = findings(file)
    assert checks.findings == ()
    assert len(checks.sifted.suppressed) == 1


@pytest.mark.parametrize("cell", ["<ipython-input-3-0123456789ab>", "/tmp/ipykernel_17/365.py"])
def test_cells_of_notebooks_are_reported_by_their_names(cell: str) -> None:
    text = PLAIN + "fill[1, 64](np.zeros(40))\n"
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)  # as IPython does
    checks = Checks()
    with simulated_gpu(observers=[checks]):
        exec(compile(text, cell, "exec"), {})
    (found,) = checks.findings
    assert (found.source, found.line) == (cell, 6)
    assert linecache.getline(found.source, found.line) == "    x[cuda.grid(1)] = 2\n"


CALLED_TWICE = """
__device__ float right_of(const float *x, int i) { return x[i + 1]; }
__device__ float both(const float *x, int i) {
    return right_of(x, i);
}
__global__ void sums(const float *x, float *out) {
    out[threadIdx.x] = both(x, threadIdx.x);
    out[threadIdx.x] += right_of(x, threadIdx.x + 1);
}
"""


@pytest.mark.parametrize("inlined", ["", "__noinline__ "], ids=["inlined", "called"])
def test_a_finding_in_a_helper_names_its_calls(inlined: str) -> None:
    source = CALLED_TWICE.replace("__device__ float", f"{inlined}__device__ float")
    found = tw.check(Program.from_cuda(source, "sums"), 1, 32, (np.ones(32, np.float32), np.zeros(32, np.float32)))
    (one,) = found
    assert (one.code, one.line) == ("TW101", 2)
    assert set(one.details["called_at"]) == {"kernel.cu:4", "kernel.cu:7", "kernel.cu:8"}
    assert "called at kernel.cu:" in " ".join(str(found).split())
    assert one.to_json()["details"]["called_at"] == one.details["called_at"]
