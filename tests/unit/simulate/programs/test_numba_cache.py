"""numba-cuda's output on disk: what is kept, and what makes a kernel a different one."""

from __future__ import annotations

import linecache
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

import numba
from numba import cuda
from numba.cuda import extending

import tilewright as tw
from tilewright.simulate.programs import numba_cache

FACTS = {"cc": (9, 0), "fastmath": False}
TYPES = (numba.float32[::1],)
SOURCE = """
import math, numpy as np
from numba import cuda
import values
FACTOR, TABLE = 3, (1, 2)

@cuda.jit(device=True)
def twice(x):
    return x * 2

def kernel(x):
    i = cuda.grid(1)  # one element a thread
    x[i] = twice(x[i]) * FACTOR + values.LIMIT + np.float32(TABLE[0]) + math.sqrt(x[i])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    if numba_cache._extended():  # by another test of this process
        monkeypatch.setattr(numba_cache, "_extended", lambda: False)
    return tmp_path / "cache"


@pytest.fixture
def kernel_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the kernel of a source in a file, with the value of the module that it imports."""

    def make(source: str = SOURCE, limit: Any = 7) -> Any:
        path = tmp_path / "program.py"
        path.write_text(source)
        linecache.checkcache()
        values = types.ModuleType("values")
        vars(values)["LIMIT"] = limit
        monkeypatch.setitem(sys.modules, "values", values)
        space: dict[str, Any] = {"__name__": "program"}
        exec(compile(source, str(path), "exec"), space)
        return space["kernel"]

    return make


class Counted:
    """A compilation that counts how often it is needed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> tuple[str, ...]:
        self.times += 1
        return ("entry", "text \u00e9")


def times(*kernels: Any, facts: Any = FACTS, types: Any = TYPES) -> int:
    """How often kernels are compiled, one after the other."""
    made = Counted()
    for kernel in kernels:
        assert numba_cache.kept(kernel, types, facts, made) == ("entry", "text \u00e9")
    return made.times


def test_a_kernel_is_compiled_once(kernel_of: Callable[..., Any]) -> None:
    assert times(kernel_of(), kernel_of(), kernel_of()) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FACTOR, TABLE = 3", "FACTOR, TABLE = 4"),
        ("(1, 2)", "(2, 2)"),
        ("return x * 2", "return x + 2"),
        ("* FACTOR", "- FACTOR"),
        ("def kernel(x)", "\ndef kernel(x)"),
        ("one element", "an element"),
        ("device=True", "device=True, fastmath=True"),
        ("FACTOR, TABLE = 3", "FACTOR, TABLE = 3.0"),
        ("FACTOR, TABLE = 3", "FACTOR, TABLE = np.int8(3)"),
        ("def kernel(x)", "def kernel(x, y=1)"),
        ("import math, numpy", "import cmath as math, numpy"),
    ],
)
def test_what_a_kernel_is_made_from_makes_it_another(kernel_of: Callable[..., Any], before: str, after: str) -> None:
    assert before in SOURCE
    assert [times(kernel_of(source)) for source in (SOURCE, SOURCE.replace(before, after), SOURCE)] == [1, 1, 0]


def test_values_in_modules_and_options_and_types_make_it_another(kernel_of: Callable[..., Any]) -> None:
    kernel = kernel_of()
    assert times(kernel, kernel_of(limit=8), kernel_of(limit=7)) == 2
    assert times(kernel, facts={**FACTS, "fastmath": True}) == 1
    assert times(kernel, facts={**FACTS, "cc": (8, 0)}) == 1
    assert times(kernel, types=(numba.float32[:],)) == 1
    assert times(kernel, types=(numba.float64[::1],)) == 1
    assert times(kernel) == 0


def test_settings_and_versions_make_it_another(kernel_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, tools = kernel_of(), numba_cache._tools()
    assert times(kernel) == 1
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert times(kernel) == 1
    monkeypatch.delenv("NUMBA_OPT")
    assert times(kernel) == 0
    monkeypatch.setattr(numba_cache, "_tools", lambda: [*tools, "another release"])
    assert times(kernel) == 1


def test_closures_count_by_value() -> None:
    def made(value: Any) -> Any:
        def kernel(x: Any) -> None:
            x[0] = value

        return kernel

    assert times(made(1), made(1), made(2), made(np.float32(2)), made(np.arange(3)), made(np.arange(3))) == 4


def test_values_without_a_text_are_compiled_each_time(kernel_of: Callable[..., Any]) -> None:
    for value in (object(), np.array([None]), {1, 2}, types.SimpleNamespace(a=1)):
        kernel = kernel_of(limit=value)
        assert times(kernel, kernel) == 2, value


def test_kernels_with_types_of_others_are_compiled_each_time(kernel_of: Callable[..., Any]) -> None:
    class Own(numba.types.Type):  # type: ignore[misc]
        pass

    assert times(kernel_of(), kernel_of(), types=(Own("own"),)) == 2


@pytest.mark.parametrize("module", ["extras", "numba_extras", "numba.cuda.tests.test_extras"])
def test_a_compiler_that_somebody_extended_keeps_nothing(kernel_of: Callable[..., Any], module: str) -> None:
    from numba.cuda.typing.templates import builtin_registry

    if numba_cache._extended.__name__ != "_extended":
        pytest.skip("another test of this process has extended Numba for good")
    kernel, before = kernel_of(), {name: list(each) for name, each in vars(builtin_registry).items()}
    assert times(kernel, kernel) == 1
    root = Path(cuda.__file__).parents[2] if module.startswith("numba.cuda") else Path(numba.__file__).parents[1]
    file = root.joinpath(*module.split(".")).with_suffix(".py")
    inside: dict[str, Any] = {"__name__": module}
    exec(compile("def given(x): ...\ndef implementation(x): return lambda x: x", file, "exec"), inside)
    try:
        extending.overload(inside["given"])(inside["implementation"])
        assert times(kernel, kernel) == 2
    finally:
        for name, each in before.items():
            getattr(builtin_registry, name)[:] = each


def test_a_compilation_that_warns_warns_each_time(kernel_of: Callable[..., Any]) -> None:
    def make() -> tuple[str, ...]:
        warnings.warn("slow", RuntimeWarning, stacklevel=1)
        return ("entry", "text")

    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="slow"):
            assert numba_cache.kept(kernel_of(), TYPES, FACTS, make) == ("entry", "text")


def test_what_changed_during_a_compilation_is_not_kept(kernel_of: Callable[..., Any]) -> None:
    kernel = kernel_of()

    def make() -> tuple[str, ...]:
        kernel.__globals__["FACTOR"] += 1
        return ("entry", "text")

    numba_cache.kept(kernel, TYPES, FACTS, make)
    assert times(kernel_of()) == 1
    assert times(kernel) == 1


def test_nothing_is_not_kept(kernel_of: Callable[..., Any], cache: Path) -> None:
    assert numba_cache.kept(kernel_of(), TYPES, FACTS, lambda: ()) == ()
    assert not list(cache.rglob("*.bin"))


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:-1] + b"x", lambda b: b""])
def test_a_damaged_entry_is_made_again(
    kernel_of: Callable[..., Any], cache: Path, damage: Callable[[bytes], bytes]
) -> None:
    kernel = kernel_of()
    assert times(kernel) == 1
    (entry,) = cache.rglob("*.bin")
    entry.write_bytes(damage(entry.read_bytes()))
    with pytest.warns(tw.errors.TilewrightWarning, match="damaged"):
        assert times(kernel) == 1
    assert times(kernel) == 0


def test_an_entry_that_others_can_write_is_not_read(kernel_of: Callable[..., Any], cache: Path) -> None:
    kernel = kernel_of()
    assert times(kernel) == 1
    (entry,) = cache.rglob("*.bin")
    entry.chmod(0o666)
    with pytest.warns(tw.errors.TilewrightWarning, match="another user"):
        assert times(kernel) == 1


PROGRAM = """
import numpy as np
import tilewright as tw
from numba import cuda

@cuda.jit
def kernel(x):
    x[cuda.grid(1)] += 1

x = np.zeros(32, np.float32)
with tw.simulated_gpu():
    kernel[1, 32](x)
    print(kernel.inspect_asm(next(iter(kernel.overloads))))
assert x.tolist() == [1] * 32
"""


def test_two_processes_at_once_make_the_same(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "both.py"
    path.write_text(PROGRAM)
    both = [subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [one.communicate(timeout=120)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    third = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    assert texts == [third, third]
    assert len(list((cache / "resources").glob("*.bin"))) == 1


def test_numba_s_own_functions_count_as_known() -> None:
    def kernel(x: Any) -> None:
        cuda.syncthreads()
        x[0] = cuda.atomic.add(x, 0, np.float32(abs(min(1, 2))))

    assert times(kernel, kernel) == 1
