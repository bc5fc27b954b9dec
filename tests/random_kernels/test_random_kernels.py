"""Random kernels, on the machine for hosts of three widths, give the bits that a scalar interpreter gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import levels
import narrow_hosts
import pytest
from generator import generate
from kernel_tree import Kernel, ptx
from shrinking import shrunk
from trial import still_wrong, wrong

from tilewright.simulate.run import job
from tilewright.simulate.run.kernels import KernelStore
from tilewright.simulate.translate.analysis import shape, shapes, transfer

#: Kernels of `make volume` on each host: compilation for narrow ones takes two to four times as long.
VOLUME = {"own": 800, "avx2": 300, "sse": 200}
HOSTS = tuple(VOLUME)
CHUNK = 20
#: (first seed, host): each host has its own kernels.
CHUNKS = [
    (first + 100_000 * i, host)
    for i, (host, count) in enumerate(VOLUME.items())
    for first in range(1000, 1000 + count, CHUNK)
]


def way_of(seed: int) -> str:
    """How a kernel is run: one in eight is checked, one in eight profiled."""
    return {3: "check", 6: "profile"}.get(seed % 8, "run")


def fail(kernel: Kernel, way: str, what: str) -> None:
    """Fail the test with the error, the kernel cut to the smallest failing one, and that one's error."""
    small = shrunk(kernel, lambda cut: still_wrong(cut, way))
    pytest.fail(
        f"seed {kernel.seed}, by {way}: {what}\n"
        f"in the kernel\n{ptx(kernel)}\nor, with grid {small.grid} and block {small.block}, in the smaller one: "
        f"{wrong(small, way)}\n{ptx(small)}"
    )


def compare(seed: int, way: str) -> None:
    """Half of the kernels run quick code, and half optimised where nothing observes them."""
    kernel = generate(seed)
    with levels.launches(optimised=bool((seed ^ seed >> 3) & 1)):
        what = wrong(kernel, way)
        if what:
            fail(kernel, way, what)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", ["run", "check", "profile"])
def test_kernels(monkeypatch: pytest.MonkeyPatch, host: str, way: str) -> None:
    narrow_hosts.use_host(monkeypatch.setattr, host)
    first = 10 * HOSTS.index(host)
    for seed in range(first, first + 2) if way == "run" else (first + 5,):
        compare(seed, way)


@pytest.mark.volume
@pytest.mark.parametrize(("first", "host"), CHUNKS)
def test_many_kernels(monkeypatch: pytest.MonkeyPatch, first: int, host: str) -> None:
    narrow_hosts.use_host(monkeypatch.setattr, host)
    for seed in range(first, first + CHUNK):
        compare(seed, way_of(seed))


# -- faults that the test finds


def _wider_strides(affine: Callable[..., shape.Shape]) -> Callable[..., shape.Shape]:
    return lambda offsets, lo, hi, align: affine([x + (x > 3) for x in offsets], lo, hi, align)


#: Defects of a translator: the replaced function, and its replacement, made from the original.
DEFECTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "an affine index has another stride": (shape, "_affine", _wider_strides),
    "an extended index never wraps": (shape, "widen", lambda _: lambda a, bits, *, signed: a),
    "lanes that wait lose what a write keeps": (shapes.Shapes, "blends", lambda _: lambda *_: False),
    "a choice by lane is one of the warp": (transfer, "_selp", lambda _: lambda sources: shape.join(*sources[:2])),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, defect: str) -> None:
    owner, name, broken = DEFECTS[defect]
    fresh = KernelStore()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(job, "kernel_store", lambda: fresh)
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    assert any(wrong(generate(seed)) for seed in range(12))


def test_a_failure_shows_the_kernel_and_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is any kernel with a multiplication in it."""

    def found(kernel: Kernel, way: str = "run") -> str:
        return "a product" if "mul.lo" in ptx(kernel) else ""

    kernel = next(k for k in map(generate, range(20)) if found(k))
    small = shrunk(kernel, lambda cut: bool(found(cut)))
    assert found(small)
    assert ptx(small).count("\n") < ptx(kernel).count("\n") - 40
