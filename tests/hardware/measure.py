r"""Measure a real GPU in stages, the most valuable first, and write one JSON recording.

On a machine with a GPU, from the root of the repository::

    python tests/hardware/measure.py --out h100.json --seconds 570

The first lines say what the machine lacks. Each stage runs in its own process, which writes each item to a log beside
the recording as soon as the item is known. If the process ends early (a failed kernel, a crash), only that item fails:
a fresh process continues with the next. A contender that ends a race is left out when the race is run again. The
recording is replaced as a whole; the whole errors of processes are in `h100.errors.txt`. The next call with the same
`--out` goes on; `--resume h100.json` begins with what another recording or log has. The last lines are the bars.

`--simulated h100` does the same on the simulated GPU, through cuda.core and the library that stands for libcuda: its
times mean nothing, and such a recording says `simulated`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
for _folder in ("tests/hardware", "tests/isa", "benchmarks", "tests/unit"):
    sys.path.append(str(_ROOT / _folder))

import clocks  # noqa: E402
import preflight  # noqa: E402

#: A name, and what measures it; that of a race takes its `Parts`.
Item = tuple[str, Callable[..., Any]]
#: Products that are verified: one element, part of a tile, whole tiles.
SHAPES = ((1, 1, 1), (100, 37, 61), (256, 256, 256))
#: On a GPU also: several tiles of each product of a batch, and several tiles of each persistent block, in few steps.
SEVERAL_TILES, SEVERAL_TURNS = (300, 520, 70), (4224, 4352, 40)
#: Products that are timed; the bars are for the first.
RACES = ((4096, 4096, 4096), (8192, 8192, 8192), (1024, 1024, 1024))


def _opened() -> Any:
    from tilewright.multiply.backends import inventory

    return inventory.opened("cuda")


def verify(options: argparse.Namespace) -> Iterator[Item]:
    """Every kernel over shapes and dtypes: wrong elements, registers, seconds."""
    import verify as verifying

    from tilewright.multiply.kernels import catalogue

    opened = _opened()
    for record in catalogue.records():
        if record.backend != "gpu" or record.published or record.unfit(opened.cc):
            continue
        if options.only and record.name not in options.only:
            continue
        turns = [SEVERAL_TURNS] if record.resident and not options.simulated else []
        for dtype in record.dtypes:
            for shape in options.shapes or (*SHAPES, *turns):
                if record.accepts(*shape, dtype) is None:
                    key = f"{record.name} {dtype} {'x'.join(map(str, shape))}"
                    yield key, lambda asked=(opened, record, dtype, shape): verifying.verified(*asked, predict=False)


def batches(options: argparse.Namespace) -> Iterator[Item]:
    """Four products in a launch of every kernel that takes them: bytes that differ from those alone, seconds."""
    import verify as verifying

    from tilewright.multiply.kernels import catalogue

    opened = _opened()
    for record in catalogue.records():
        if "batch" in record.takes and not record.unfit(opened.cc) and record.name in (options.only or [record.name]):
            for dtype in {record.dtypes[0]: 0, record.dtypes[-1]: 0}:
                asked = (opened, record, dtype, SHAPES[1] if options.simulated else SEVERAL_TILES)
                yield f"{record.name} {dtype}", lambda asked=asked: verifying.batched(*asked)


def race(options: argparse.Namespace) -> Iterator[Item]:
    """Times of rungs and of other libraries, at the size of the bars."""
    return _races(options, options.races or RACES[:1])


def sizes(options: argparse.Namespace) -> Iterator[Item]:
    """The same at other sizes."""
    return _races(options, () if options.races else RACES[1:])


def _races(options: argparse.Namespace, shapes: Sequence[tuple[int, int, int]]) -> Iterator[Item]:
    import racing

    cc = _opened().cc if shapes else (0, 0)
    for m, n, k in shapes:
        for dtype in racing.DTYPES:
            yield (
                f"{dtype} {m}x{n}x{k}",
                lambda parts, asked=(dtype, (m, n, k), cc): {
                    "before": clocks.state(),
                    "contenders": racing.race(*asked, parts, options.until, tuple(options.only)),
                    "after": clocks.state(),
                },
            )  # fmt: skip


def bits(options: argparse.Namespace) -> Iterator[Item]:
    """Products of random registers by every form of the tensor cores; and those that show the alignment's floor."""
    import core_bits

    from tilewright.multiply.backends.cuda import device

    cc, launch = _opened().cc, device.launch
    for shape, name in core_bits.FLOORS:
        key = f"floor {shape} {name}"
        yield key, lambda asked=(shape, name, cc): {"d": core_bits.encoded(core_bits.tiny_sums(*asked, launch))}
    for name in core_bits.names(cc):
        yield name, lambda name=name: {"d": core_bits.encoded(core_bits.run(name, cc, launch))}


def counts(options: argparse.Namespace) -> Iterator[Item]:
    """The hardware profiler's counts of the SIMT kernels."""
    import record as recorder

    under = ["--simulated", options.simulated] if options.simulated else []
    for m, n, k in options.shapes or SHAPES[1:]:
        yield (
            f"{m}x{n}x{k}",
            lambda asked=(m, n, k): recorder.profiled(*asked, under, options.only, max(1, options.until - time.time())),
        )


#: Packages whose versions are recorded, besides those that Tilewright depends on.
_PACKAGES = ("cupy", "cupy-cuda12x", "cupy-cuda13x", "torch", "triton", "cuda-core", "cuda-bindings", "numba",
             "nvidia-cuda-nvrtc", "nvidia-cublas")  # fmt: skip
#: The result of an item or a contender that began and did not end.
_ENDED = "the process ended while it was measured"
#: Characters of a process's errors that are kept.
_KEPT = 100_000
#: The exit status if a file cannot be written.
_UNWRITTEN = 4
#: Failures of a stage that are printed; the recording has all.
_SHOWN = 20
#: In the order of their value.
STAGES: dict[str, Callable[[argparse.Namespace], Iterator[Item]]] = {
    "verify": verify, "batches": batches, "race": race, "counts": counts, "bits": bits, "sizes": sizes,
}  # fmt: skip


def about(simulated: str) -> dict[str, Any]:
    """The device, the driver, versions and the date."""
    from tilewright.multiply.backends.cuda import device
    from tilewright.show.rates.conditions import conditions

    gpu = device.current()
    return {
        "device": str(gpu.name), "compute_capability": list(gpu.compute_capability), "driver": clocks.driver(),
        "simulated": bool(simulated), "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "conditions": conditions(_PACKAGES),
    }  # fmt: skip


@contextlib.contextmanager
def on_device(simulated: str) -> Iterator[None]:
    """The machine's GPU, or a simulated one."""
    if not simulated:
        yield
        return
    import tilewright as tw

    with tw.simulated_gpu(simulated):
        yield


class UnwrittenError(Exception):
    """A file that could not be written, and what to do."""


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """Raise UnwrittenError if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UnwrittenError(
            f"{path} cannot be written ({error.strerror}); free room or give another --out, with --resume to go on: "
            f"what was measured before stays in {path.with_suffix('.jsonl')}"
        ) from error


class Log:
    """The results so far, a line an entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **entry: Any) -> None:
        """Write an entry, so that no later failure can lose it; a line that was cut before does not spoil it.

        Raises UnwrittenError; the entry is then printed, so that it is not lost.
        """
        try:
            self._add(entry)
        except UnwrittenError:
            print(json.dumps(entry), flush=True)
            raise

    def _add(self, entry: dict[str, Any]) -> None:
        with written(self.path), self.path.open("a") as file:
            file.write("\n" + json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> dict[str, Any]:
        """The recording: the device, and each stage's items; an item that began and has no result failed.

        A race that failed has the contenders so far, and `again` if one of them was the reason: without it the race
        may end.
        """
        found: dict[str, Any] = {"stages": {}}
        parts: dict[tuple[str, str], dict[str, Any]] = {}
        failed: dict[tuple[str, str], set[str]] = {}
        for entry in self._entries():
            if "about" in entry:
                found |= entry["about"]
                continue
            at = stage, item = entry["stage"], entry["item"]
            if "part" in entry:
                result = entry.get("result", {"refused": _ENDED})
                parts.setdefault(at, {})[entry["part"]] = result
                named = failed.setdefault(at, set())
                (named.add if "refused" in result else named.discard)(entry["part"])
                continue
            if "result" not in entry:
                failed[at] = set()
            found["stages"].setdefault(stage, {})[item] = entry.get("result", {"error": _ENDED})
        for (stage, item), known in parts.items():
            result = found["stages"][stage][item]
            if "error" in result:
                result |= {"contenders": known, "again": result["error"] == _ENDED and bool(failed[stage, item])}
        return found

    def _entries(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            with contextlib.suppress(ValueError):  # a line that was cut
                yield json.loads(line)


class Parts:
    """The contenders of a race, each written at once, so that one that ends the process is not tried again."""

    def __init__(self, log: Log, stage: str, item: str) -> None:
        self._log, self._of = log, {"stage": stage, "item": item}
        before = log.read()["stages"].get(stage, {}).get(item, {}).get("contenders", {})
        #: Contenders that failed before.
        self.refused = {name: one for name, one in before.items() if "refused" in one}

    def begin(self, name: str) -> None:
        """Note that a contender is tried."""
        self._log.add(**self._of, part=name)

    def end(self, name: str, result: dict[str, Any]) -> None:
        """Write what a contender has so far."""
        self._log.add(**self._of, part=name, result=result)


def line(error: BaseException) -> str:
    """An error in one line: its type, and the first and the last line of what it says."""
    said = [one.strip() for one in str(error).splitlines() if one.strip()]
    return f"{type(error).__name__}: {' ... '.join(dict.fromkeys([*said[:1], *said[-1:]]))}"[:500]


def works() -> bool:
    """Whether the GPU still works in this process; after some errors it does not."""
    from cuda.bindings import driver

    try:
        return not int(driver.cuCtxSynchronize()[0])
    except Exception:  # no driver, or none of the simulated GPU's
        return False


def child(name: str, options: argparse.Namespace, log: Log) -> None:
    """Measure the items that a stage lacks, until the time is over."""
    with on_device(options.simulated):
        if name == "about":
            log.add(about=about(options.simulated))
            return
        known = log.read()["stages"].get(name, {})
        for key, measured in STAGES[name](options):
            if key in known and not known[key].get("again"):
                continue
            if options.bits and name == "bits" and not re.search(options.bits, key):
                continue
            if time.time() > options.until:
                return
            parts = [Parts(log, name, key)] if name in ("race", "sizes") else []
            log.add(stage=name, item=key)
            try:
                result = measured(*parts)
            except Exception as error:  # any error belongs to that item alone
                result = {"error": line(error)}
            log.add(stage=name, item=key, result=result)
            if "error" in result and not works():
                raise SystemExit(3)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all stages, each in its own processes."""
    with written(options.out):
        options.out.parent.mkdir(parents=True, exist_ok=True)
    log, environment = Log(options.out.with_suffix(".jsonl")), preflight.environment()
    options.until = time.time() + options.seconds
    _keep([log.read(), *([_recorded(options.resume)] if options.resume else [])], log.path)
    for name in ("about", *(options.stage or STAGES)):
        again, begun = True, time.time()
        while again and time.time() < options.until:
            known = log.path.stat().st_size if log.path.exists() else 0
            code, said = _process(name, options, environment)
            if code == _UNWRITTEN:
                raise UnwrittenError(said)
            grown = log.path.exists() and log.path.stat().st_size > known
            again = code != 0 and grown  # a process that ended before its first item would do so again
            if code and not grown:
                log.add(stage=name, item="", result={"error": f"the stage's process ended with {code}: {said}"})
            _replace(options.out, log.read())
        options.took[name] = time.time() - begun
    return log.read()


def _process(name: str, options: argparse.Namespace, environment: dict[str, str]) -> tuple[int, str]:
    """Run a stage's process; its exit status, 0 if the time is over, and the last line of its errors."""
    command = [sys.executable, __file__, "--child", name, "--until", str(options.until), *options.given]
    last = max(1, options.until + 20 - time.time())
    with tempfile.TemporaryFile("w+") as errors:
        try:
            code = subprocess.run(command, check=False, timeout=last, stderr=errors, env=environment).returncode
        except subprocess.TimeoutExpired:
            code = 0
        errors.seek(0)
        said = errors.read()
    if code != _UNWRITTEN and said:  # else `main` prints it
        with written(options.out), options.out.with_suffix(".errors.txt").open("a") as file:
            file.write(f"{name} ended with {code}:\n{said[-_KEPT:]}\n")
    return code, next((one for one in reversed(said.splitlines()) if one.strip()), "")[:500]


def _replace(path: Path, found: dict[str, Any]) -> None:
    """Write a recording; whoever reads it sees the old one or the new."""
    made = path.with_suffix(".tmp")
    with written(path):
        made.write_text(json.dumps(found, indent=1) + "\n")
        made.replace(path)


def _recorded(path: Path) -> dict[str, Any]:
    return Log(path).read() if path.suffix == ".jsonl" else json.loads(path.read_text())


def _keep(before: Sequence[dict[str, Any]], path: Path) -> None:
    """Begin a log with earlier results; what failed, or no profiler could count, is measured again."""
    made = Log(path.with_suffix(".tmp"))
    with written(path):
        made.path.write_text("")
    for stage, items in (at for one in before for at in one["stages"].items()):
        for item, result in items.items():
            if "error" not in result and "refused" not in result:
                made.add(stage=stage, item=item, result=result)
    with written(path):
        made.path.replace(path)


def _shape(text: str) -> tuple[int, int, int]:
    m, n, k = (int(part) for part in text.split(","))
    return m, n, k


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the results; 1 if something is wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--stage", action="append", choices=STAGES, help="may be repeated; else all")
    parser.add_argument("--simulated", default="", help="a GPU of `tilewright gpus`")
    parser.add_argument("--shapes", type=_shape, action="append", help="M,N,K of verify and counts")
    parser.add_argument("--races", type=_shape, action="append", help="M,N,K of race")
    parser.add_argument("--only", action="append", default=[], help="kernels; may be repeated")
    parser.add_argument("--bits", default="", help="a pattern of forms")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    options.given, options.took = given, {}
    if options.resume and not options.resume.exists():
        parser.error(f"--resume must be a recording or a log (got {options.resume}, which is not there)")
    try:
        return _run(options)
    except UnwrittenError as error:
        print(error, file=sys.stderr)
        return _UNWRITTEN


def _run(options: argparse.Namespace) -> int:
    if options.child:
        child(options.child, options, Log(options.out.with_suffix(".jsonl")))
        return 0
    missing, less = preflight.lacks()
    for said in (*missing, *less):
        print(said, flush=True)
    if missing:
        return 1
    found = measure(options)
    failed = 0
    for stage, items in found["stages"].items():
        errors = {item: one["error"] for item, one in items.items() if "error" in one}
        refused = {item: one["refused"] for item, one in items.items() if "refused" in one}
        refused |= {
            f"{item}, {name}": part["refused"]
            for item, one in items.items()
            for name, part in one.get("contenders", {}).items()
            if "refused" in part
        }
        failed += len(errors)
        took = f" in {options.took[stage]:.0f} s" if stage in options.took else ""
        print(f"{stage}: {len(items)} items{took}, {len(errors)} failed, {len(refused)} not possible here")
        for item, said in list((errors | refused).items())[:_SHOWN]:
            print(f"  {item}: {said[:200]}")
    for said in _bars(found):
        print(said)
    return bool(failed)


def _bars(found: dict[str, Any]) -> list[str]:
    """The bars, a line each; or why there are none."""
    try:
        import comparing_recordings

        return comparing_recordings.shown_bars(found)
    except Exception as error:  # the recording is whole; what it means can be read elsewhere
        return [f"no bars: {line(error)}"]


if __name__ == "__main__":
    raise SystemExit(main())
