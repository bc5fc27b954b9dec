r"""Measure a real GPU in stages, the most valuable first, and write one JSON recording.

On a machine with a GPU, from the root of the repository::

    python tests/hardware/measure.py --out h100.json --seconds 570

Each stage runs in its own process, which writes each item to a log beside the recording as soon as the item is known.
If the process ends early (a failed kernel, a crash), only that item fails: a fresh process continues with the next.
`--resume h100.json` keeps what an earlier recording has and measures what it lacks.

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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
for _folder in ("tests/hardware", "tests/isa", "benchmarks", "tests/unit"):
    sys.path.append(str(_ROOT / _folder))

Item = tuple[str, Callable[[], Any]]
#: Products that are verified: one element, part of a tile, whole tiles.
SHAPES = ((1, 1, 1), (100, 37, 61), (256, 256, 256))


def _opened() -> Any:
    from tilewright.backends import inventory

    return inventory.opened("cuda")


def verify(options: argparse.Namespace) -> Iterator[Item]:
    """Every kernel over shapes and dtypes: wrong elements, registers, seconds."""
    import verify as verifying

    from tilewright.kernels import catalogue

    opened = _opened()
    for record in catalogue.records():
        if record.backend != "gpu" or record.published or record.unfit(opened.cc):
            continue
        if options.only and record.name not in options.only:
            continue
        for dtype in record.dtypes:
            for shape in options.shapes or SHAPES:
                if record.accepts(*shape, dtype) is None:
                    key = f"{record.name} {dtype} {'x'.join(map(str, shape))}"
                    yield key, lambda asked=(opened, record, dtype, shape): verifying.verified(*asked, predict=False)


def race(options: argparse.Namespace) -> Iterator[Item]:
    """Times of rungs and of other libraries."""
    import racing

    cc = _opened().cc
    for m, n, k in options.races or ((4096, 4096, 4096), (1024, 1024, 1024), (8192, 8192, 8192)):
        for dtype in racing.DTYPES:
            yield (
                f"{dtype} {m}x{n}x{k}",
                lambda asked=(dtype, (m, n, k), cc): {
                    "before": clocks(), "contenders": racing.race(*asked, tuple(options.only)), "after": clocks(),
                },
            )  # fmt: skip


def bits(options: argparse.Namespace) -> Iterator[Item]:
    """Products of random registers by every form of the tensor cores; and those that show the alignment's floor."""
    import core_bits

    from tilewright.backends.cuda import device

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
        yield f"{m}x{n}x{k}", lambda asked=(m, n, k): recorder.profiled(*asked, under, options.only)


#: In the order of their value.
STAGES: dict[str, Callable[[argparse.Namespace], Iterator[Item]]] = {
    "verify": verify, "race": race, "bits": bits, "counts": counts,
}  # fmt: skip


def clocks() -> str:
    """Clocks, power and temperature as the driver's tool prints them; "" without the tool."""
    query = "clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def about(simulated: str) -> dict[str, Any]:
    """The device, the driver, versions and the date."""
    from tilewright.backends.cuda import device
    from tilewright.rates.conditions import conditions

    gpu = device.current()
    driver = next(iter(re.findall(r"[\d.]+", _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv"))), "")
    return {
        "device": str(gpu.name), "compute_capability": list(gpu.compute_capability), "driver": driver,
        "simulated": bool(simulated), "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "conditions": conditions(("cupy-cuda13x", "torch", "triton", "cuda-core", "cuda-bindings")),
    }  # fmt: skip


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


@contextlib.contextmanager
def on_device(simulated: str) -> Iterator[None]:
    """The machine's GPU, or a simulated one."""
    if not simulated:
        yield
        return
    import tilewright as tw

    with tw.simulated_gpu(simulated):
        yield


class Log:
    """The results so far, a line an entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **entry: Any) -> None:
        """Write an entry, so that no later failure can lose it."""
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> dict[str, Any]:
        """The recording: the device, and each stage's items, an item that began and has no result failed."""
        found: dict[str, Any] = {"stages": {}}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            entry = json.loads(line)
            if "about" in entry:
                found |= entry["about"]
            else:
                result = entry.get("result", {"error": "the process ended while it was measured"})
                found["stages"].setdefault(entry["stage"], {})[entry["item"]] = result
        return found


def child(name: str, options: argparse.Namespace, log: Log) -> None:
    """Measure the items that a stage lacks, until the time is over."""
    with on_device(options.simulated):
        if name == "about":
            log.add(about=about(options.simulated))
            return
        known = log.read()["stages"].get(name, {})
        for key, measured in STAGES[name](options):
            if key in known:
                continue
            if options.bits and name == "bits" and not re.search(options.bits, key):
                continue
            if time.time() > options.until:
                return
            log.add(stage=name, item=key)
            try:
                result = measured()
            except Exception as error:  # any error belongs to that item alone
                result = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:500]}
            log.add(stage=name, item=key, result=result)
            if "error" in result and "DeviceError" in str(result["error"]):
                raise SystemExit(3)  # after an error the GPU does not work again in this process


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all stages, each in its own processes."""
    log = Log(options.out.with_suffix(".jsonl"))
    options.until = time.time() + options.seconds
    if options.resume:
        _keep(json.loads(options.resume.read_text()), log)
    for name in ("about", *(options.stage or STAGES)):
        again = True
        while again and time.time() < options.until:
            known = log.path.stat().st_size if log.path.exists() else 0
            command = [sys.executable, __file__, "--child", name, "--until", str(options.until), *options.given]
            try:
                code = subprocess.run(command, check=False, timeout=max(1, options.until + 20 - time.time())).returncode
            except subprocess.TimeoutExpired:
                code = 0
            grown = log.path.exists() and log.path.stat().st_size > known
            again = code != 0 and grown  # a process that ended before its first item would do so again
            if code and not grown:
                log.add(stage=name, item="", result={"error": f"the stage's process ended with {code}"})
        found = log.read()
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _keep(before: dict[str, Any], log: Log) -> None:
    for stage, items in before["stages"].items():
        for item, result in items.items():
            if "error" not in result:
                log.add(stage=stage, item=item, result=result)


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
    options.given = given
    if options.child:
        child(options.child, options, Log(options.out.with_suffix(".jsonl")))
        return 0
    found = measure(options)
    failed = 0
    for stage, items in found["stages"].items():
        errors = {item: one["error"] for item, one in items.items() if "error" in one}
        failed += len(errors)
        print(f"{stage}: {len(items)} items, {len(errors)} failed")
        for item, error in list(errors.items())[:10]:
            print(f"  {item}: {error}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
