"""No kernel reads or writes past its arrays: each array ends just before a protected page.

The published kernel from which these derive (row S2) reads past its arrays in partial tiles.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright.multiply.backends.opencl import OpenclDevice

#: Multiplies arrays at the ends of such pages; the system ends the process at the first access past one.
PROGRAM = """
import ctypes, mmap, sys
import numpy as np
from tilewright.multiply.backends.opencl import host_products, choose
from tilewright.multiply.backends.opencl.tiles import of_form
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical

libc, page, kept = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE, []
libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

def at_the_end(values):
    size = -(-values.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    kept.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(start + size, page, 0) == 0
    found = np.frombuffer(memory, values.dtype, values.size, size - values.nbytes).reshape(values.shape)
    found[...] = values
    return found

random, products = np.random.default_rng(0), host_products(choose("opencl"))
for form, name in (x.split() for x in sys.argv[1:]):
    print(form, name, flush=True)
    kind = Kind(name, name, name, "int32" if name == "int8" else "float32")
    cut = of_form(form, products.device, kind)
    for m, n, k in ((17, 18, 19), (1, 1, 1), (100, 130, 70), (64, 128, 65), (5, 128, 64)):
        a, b = ((10 * random.standard_normal(shape)).astype(name) for shape in ((m, k), (k, n)))
        out = at_the_end(np.zeros((m, n), name))
        for laid in (np.asarray, np.transpose):
            left, right = (laid(at_the_end(np.ascontiguousarray(laid(x)))) for x in (a, b))
            products.multiply_into(left, right, out, kind, cut=cut)
            assert (out == canonical(a, b, out_dtype=name)).all(), (name, m, n, k)
print("done")
"""


#: `make test` runs every form, and the one that reads vectors with two widths of elements.
QUICK = ("naive int8", "tiled float32", "register_tiled float32", "register_tiled float16")
ALL = [f"{form} {name}" for form in ("naive", "tiled", "register_tiled") for name in ("float32", "float16", "int8")]


@pytest.mark.skipif(sys.platform == "win32", reason="not run: pages are forbidden by mprotect")
@pytest.mark.parametrize("cases", [QUICK, pytest.param(ALL, marks=pytest.mark.volume)], ids=["some", "all"])
def test_no_kernel_leaves_its_arrays(device: OpenclDevice, cases: list[str]) -> None:
    if not device.unified:
        pytest.skip(f"not run: {device.name} reads copies of the host's arrays")
    done = subprocess.run([sys.executable, "-c", PROGRAM, *cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("\ndone\n"), done.stdout + done.stderr
