"""TW305: the host's uses of memory that it shares with the device, before and after it waits for streams."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.frontends.imported import observing

N = 32


@cuda.jit
def doubled(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@cuda.jit
def even_ones(out, x):
    i = cuda.grid(1)
    if 2 * i < out.size:
        out[2 * i] = 2 * x[2 * i]


class Scene:
    """Arrays and streams, and work on them."""

    def __init__(self) -> None:
        self.s, self.other = cuda.stream(), cuda.stream()
        self.x, self.out, self.third = (cuda.mapped_array(N, np.float32) for _ in range(3))
        self.pinned, self.pinned_too = cuda.pinned_array(N, np.float32), cuda.pinned_array(N, np.float32)
        self.managed = cuda.managed_array(N, np.float32)
        self.event = cuda.event()
        for array in (self.x, self.out, self.third, self.pinned, self.pinned_too, self.managed):
            array[:] = 1
        self.device = cuda.to_device(np.ones(N, np.float32))

    def launch(self, stream: Any = None, out: Any = None, x: Any = None) -> Scene:
        doubled[1, N, self.s if stream is None else stream](
            self.out if out is None else out, self.x if x is None else x
        )
        return self

    def fetch(self) -> Scene:
        """Copy to pinned memory, in the stream."""
        self.device.copy_to_host(self.pinned, stream=self.s)
        return self

    def send(self) -> Scene:
        """Copy from pinned memory, in the stream."""
        self.device.copy_to_device(self.pinned, stream=self.s)
        return self


def found(case: Callable[[Scene], Any]) -> list[str]:
    with tw.simulated_gpu("h100", check=True) as gpu:
        case(Scene())
    return [one.message for one in gpu.findings if one.code == "TW305"]


def add_into(array: np.ndarray) -> None:
    array += 1


RACES: dict[str, Callable[[Scene], Any]] = {
    "an element": lambda s: s.launch().out[3],
    "an element of the default stream's": lambda s: s.launch(0).out[3],
    "a slice's sum": lambda s: s.launch().out[2:5].sum(),
    "a view made before": lambda s: (s.out[1:][::2], s.launch())[0].tolist(),
    "an inverted view": lambda s: s.launch().out[::-1] + 1,
    "a loop": lambda s: list(s.launch().out),
    "printing": lambda s: str(s.launch().out),
    "a comparison": lambda s: s.launch().out == 2,
    "allclose": lambda s: np.allclose(s.launch().out, 2),
    "array_equal": lambda s: np.array_equal(np.ones(N), s.launch().out),
    "a copy": lambda s: s.launch().out.copy(),
    "concatenate": lambda s: np.concatenate([np.ones(3), s.launch().out]),
    "chosen elements": lambda s: s.launch().out[[1, 2]],
    "a mask": lambda s: s.launch().out[np.ones(N, bool)],
    "item": lambda s: s.launch().out.item(4),
    "a copy into another array": lambda s: np.copyto(np.empty(N), s.launch().out),
    "assigned to another array": lambda s: s.third.__setitem__(slice(None), s.launch().out),
    "reshaped": lambda s: s.launch().out.reshape(4, 8)[2, 3],
    "pinned": lambda s: s.fetch().pinned[0],
    "pinned, passed to a kernel": lambda s: s.launch(out=s.pinned).pinned.max(),
    "managed": lambda s: s.launch(out=s.managed).managed.mean(),
    "another stream is waited for": lambda s: (s.launch(), s.other.synchronize(), s.out[0]),
    "an event from before": lambda s: (s.event.record(s.s), s.launch(), s.event.synchronize(), s.out[0]),
    "an event of another stream": lambda s: (s.launch(), s.event.record(s.other), s.event.synchronize(), s.out[0]),
    "waited for an earlier launch": lambda s: (s.launch(), s.s.synchronize(), s.launch(), s.out[0]),
    "the stream waits, not the host": lambda s: (s.launch(), s.event.record(s.s), s.event.wait(s.other), s.out[0]),
    "the device's memory is set": lambda s: (s.launch(), cuda.device_array(4, np.int8), s.out[0]),
    "a source overwritten": lambda s: s.send().pinned.fill(3),
    "a source added to": lambda s: add_into(s.send().pinned),
    "an element of a source": lambda s: s.send().pinned.__setitem__(5, 1),
    "add.at": lambda s: np.add.at(s.send().pinned, [1, 2], 1),
    "out=": lambda s: np.add(np.ones(N), 1, out=s.launch().x),
    "what a kernel reads": lambda s: s.launch().x.__setitem__(slice(2, 4), 7),
    "what a kernel writes": lambda s: s.launch().out.__setitem__(0, 7),
    "every other element": lambda s: even_ones[1, N, s.s](s.out, s.x) or s.out[1:3].sum(),
}


@pytest.mark.parametrize("case", RACES.values(), ids=RACES)
def test_a_use_that_comes_too_early_is_found(case: Callable[[Scene], Any]) -> None:
    assert len(found(case)) == 1


def called_back(s: Scene) -> float:
    done = threading.Event()
    s.launch().s.add_callback(lambda *_: done.set())
    assert done.wait(60)
    return float(s.out[0])


def in_a_block(s: Scene) -> float:
    with s.s.auto_synchronize():
        s.launch()
    return float(s.out[0])


def freed(s: Scene) -> float:
    s.launch(out=cuda.mapped_array(N, np.float32))
    return float(cuda.mapped_array(N, np.float32)[0])


CLEAN: dict[str, Callable[[Scene], Any]] = {
    "stream": lambda s: (s.launch().s.synchronize(), s.out[0]),
    "device": lambda s: (s.launch(), cuda.synchronize(), s.out.sum()),
    "default stream": lambda s: (s.launch(0), cuda.default_stream().synchronize(), s.out.tolist()),
    "legacy stream": lambda s: (s.launch(0), cuda.legacy_default_stream().synchronize(), s.out.tolist()),
    "a block of `with`": in_a_block,
    "event": lambda s: (s.launch(), s.event.record(s.s), s.event.synchronize(), s.out[0]),
    "a query that says yes": lambda s: (s.launch(), s.event.record(s.s), s.event.query(), s.out[0]),
    "by another stream's event": lambda s: (
        s.launch(), s.event.record(s.s), s.event.wait(s.other), s.other.synchronize(), s.out[0]
    ),
    "a callback": called_back,
    "a copy of another array": lambda s: (s.launch(), s.device.copy_to_host(), s.out[0]),
    "a copy to the device": lambda s: (s.launch(), cuda.to_device(np.ones(4)), s.out[0]),
    "a copy in the stream to memory that is not pinned": lambda s: (
        s.launch(), s.device.copy_to_host(stream=s.s), s.out[0]
    ),
    "host arrays of a launch": lambda s: (s.launch(0), doubled[1, N](np.ones(N), np.ones(N)), s.out[0]),
    "the default stream comes after the others": lambda s: (
        s.launch(), s.launch(0, s.third), cuda.default_stream().synchronize(), s.out[0]
    ),
    "others come after the default stream": lambda s: (
        s.launch(0), s.launch(s.other, s.third), s.other.synchronize(), s.out[0]
    ),
    "what is only read": lambda s: s.launch().x.sum(),
    "what nothing uses": lambda s: (s.launch().third.sum(), s.third.fill(2), s.pinned.sum()),
    "elements that are left out": lambda s: even_ones[1, N, s.s](s.out, s.x) or (s.out[1::2].sum(), s.out[[1, 3]]),
    "what another stream uses": lambda s: (s.launch(), s.launch(s.other, s.third), s.s.synchronize(), s.out[0]),
    "shapes and types": lambda s: (
        s.launch().out.shape, s.out.dtype, s.out.nbytes, s.out.size, len(s.out), s.out.flags, np.shape(s.out),
        np.zeros_like(s.out), s.out[2:4].shape, s.out.reshape(4, 8).ndim, np.ndim(s.out),
    ),
    "a source that is read": lambda s: s.send().pinned.sum(),
    "a source that is not pinned": lambda s: s.device.copy_to_device(np.ones(N, np.float32), stream=s.s),
    "pinned, waited for": lambda s: (s.fetch().s.synchronize(), s.pinned.sum()),
    "pinned, copied at once": lambda s: s.device.copy_to_host(s.pinned)[0],
    "written again after": lambda s: (s.send().s.synchronize(), s.pinned.fill(3)),
    "another pinned array": lambda s: s.fetch().pinned_too.sum(),
    "memory that was freed": freed,
    "passed on to another launch": lambda s: (s.launch(), s.launch(s.other, s.third, s.out)),
}  # fmt: skip


@pytest.mark.parametrize("case", CLEAN.values(), ids=CLEAN)
def test_a_use_after_waiting_is_no_finding(case: Callable[[Scene], Any]) -> None:
    assert found(case) == []


def test_a_finding_names_the_array_the_work_and_their_lines() -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        result = cuda.pinned_array(N, np.float32)
        stream = cuda.stream()
        cuda.to_device(np.ones(N, np.float32)).copy_to_host(result, stream=stream)
        for _ in range(3):
            result[1:].sum()
    (finding,) = gpu.findings
    assert finding.source == __file__
    assert finding.message.startswith("the host reads `result` without waiting for the copy to the host, started at ")
    assert (finding.details["array"], finding.details["others"]) == ("result", [f"{__file__}:{finding.line - 2}"])


def test_arrays_are_unchanged_without_a_check() -> None:
    from numba.cuda.cudadrv.devicearray import ManagedNDArray, MappedNDArray

    with tw.simulated_gpu("h100") as gpu:
        scene = Scene()
        kinds = [type(one) for one in (scene.pinned, scene.out, scene.managed)]
        scene.launch()
        assert not gpu.outstanding.pending
    assert kinds == [np.ndarray, MappedNDArray, ManagedNDArray]


def test_a_temporary_check_reports_arrays_made_meanwhile() -> None:
    with tw.simulated_gpu("h100") as gpu:
        checks = Checks(gpu="h100")
        with observing(gpu, checks):
            scene = Scene()
            _ = scene.fetch().pinned[0]
        assert [one.code for one in checks.findings] == ["TW305"]
        assert type(cuda.pinned_array(N)) is np.ndarray
        assert scene.pinned[1] == 1, "unfinished work has no owner any more"


def test_results_are_the_same_as_without_a_check() -> None:
    steps: list[Callable[[np.ndarray], Any]] = [
        lambda a: a + 1, lambda a: a[2:4], lambda a: a[[1, 2]], lambda a: a.sum(), np.sort,
        lambda a: np.concatenate([a, a]), lambda a: a.copy(), lambda a: a.reshape(4, 8).T.ravel(), lambda a: a.tolist(),
        lambda a: np.add(a, 1, out=a), repr, lambda a: a.astype(np.int8), lambda a: a == 1,
        lambda a: np.cumsum(a, out=a), lambda a: divmod(a, 2), lambda a: a.item(3), lambda a: a.take([1, 2]),
        np.zeros_like, lambda a: a @ a, lambda a: a.max(keepdims=True), lambda a: float(a[0]),
    ]  # fmt: skip
    for step in steps:
        results = []
        for check in (False, True):
            with tw.simulated_gpu("h100", check=check):
                array = cuda.pinned_array(N, np.float32)
                array[:] = np.arange(N)
                result = step(array)
                of_its_own = isinstance(result, np.ndarray) and not np.may_share_memory(result, array)
                results.append((str(result), result is array, type(result) if of_its_own else None))
        assert results[0] == results[1]
