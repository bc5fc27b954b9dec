r"""Verify every kernel of the catalogue over shapes and dtypes, time it, and write a JSON recording.

On a machine with a GPU, from the root of the repository::

    python tests/hardware/verify.py --device cuda --shape 100,37,61 --shape 4096,4096,4096 \
        --out tests/hardware/recordings/verified/h100.json

`--device simulated:h100` runs the same on the simulated GPU, whose launches have no times. Each entry has the number
of elements that differ from what the kernel's record promises, its registers, and, with `--predict`, the predicted
seconds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oracle

SHAPES = ("1,1,1", "31,33,32", "100,37,61", "256,256,256")


def verified(opened: Any, record: Any, dtype: str, shape: tuple[int, int, int], *, predict: bool) -> dict[str, Any]:
    """One kernel's entry, or an `error` if there is no result."""
    from tilewright.errors import TilewrightError
    from tilewright.ladder import operands

    m, n, k = shape
    found: dict[str, Any] = {"name": record.name, "dtype": dtype, "shape": list(shape)}
    try:
        a, b = operands(m, n, k, dtype)
        c = record.blank(m, n, dtype)
        c[...] = 77  # elements that no kernel wrote are wrong
        program = record.program(dtype, opened.cc)
        run = opened.run(record, program, a, b, c)
        found["wrong_elements"] = oracle.wrong_elements(record, c, dtype, shape)
        found["seconds"] = None if opened.simulated else run.seconds
        found["registers_per_thread"] = program.resources(opened.cc).registers_per_thread
        if predict:
            found["predicted_seconds"] = predicted(record, dtype, shape, opened.gpu)
    except TilewrightError as error:
        found["error"] = str(error).splitlines()[0]
    return found


def batched(opened: Any, record: Any, dtype: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """The entry of a kernel for four products in one launch, of which two share a B: their bits are those alone."""
    from tilewright.errors import TilewrightError
    from tilewright.ladder import operands

    m, n, k = shape
    found: dict[str, Any] = {"name": record.name, "dtype": dtype, "shape": [2, 2, *shape]}
    try:
        a, b = operands(m, n, k, dtype)
        several = np.stack([np.stack([a, a[::-1]]), np.stack([np.roll(a, 1, axis=0), a])])
        shared = np.broadcast_to(np.stack([b, b[:, ::-1]])[:, None], (2, 2, k, n))
        blank = record.blank(m, n, dtype)
        alone, c = np.full((2, 2, m, n), 77, blank.dtype), np.full((2, 2, m, n), 77, blank.dtype)
        for at in np.ndindex(2, 2):
            opened.run(record, record.program(dtype, opened.cc), several[at].copy(), shared[at].copy(), alone[at])
        run = opened.run(record, record.program(dtype, opened.cc, batch=True), several, shared, c)
        found["wrong_elements"] = int((c.view(np.uint8) != alone.view(np.uint8)).sum())
        found["seconds"] = None if opened.simulated else run.seconds
    except TilewrightError as error:
        found["error"] = str(error).splitlines()[0]
    return found


def predicted(record: Any, dtype: str, shape: tuple[int, int, int], gpu: Any) -> float:
    """The time that the model of a multiprocessor predicts."""
    from tilewright.observe.prediction.products import Product, predict_product

    seconds: float = predict_product(record, Product(*shape, dtype), gpu, changes=False).seconds
    return seconds


def recording(device: str, shapes: Sequence[str], kernels: Sequence[str], *, predict: bool = False) -> dict[str, Any]:
    """Everything that is verified on a device; `kernels` are names, by default all."""
    from tilewright.multiply.backends import inventory
    from tilewright.multiply.kernels import catalogue

    opened: Any = inventory.opened(device)
    found = [
        verified(opened, record, dtype, (m, n, k), predict=predict)
        for record in catalogue.records()
        if record.backend == "gpu" and not record.published and (not kernels or record.name in kernels)
        if not record.unfit(opened.cc)
        for dtype in record.dtypes
        for m, n, k in (map(int, shape.split(",")) for shape in shapes)
        if record.accepts(m, n, k, dtype) is None
    ]
    return {
        "device": opened.name,
        "compute_capability": list(opened.cc),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "kernels": found,
    }


def defects(found: dict[str, Any]) -> list[str]:
    """Everything in a recording that is wrong."""
    return [
        f"{one['name']} {one['dtype']} {one['shape']}: {one.get('error') or str(one['wrong_elements']) + ' wrong'}"
        for one in found["kernels"]
        if one.get("error") or one["wrong_elements"]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the recording, and print what is wrong; 1 if something is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, or simulated:NAME")
    parser.add_argument("--shape", action="append", help="M,N,K; may be repeated")
    parser.add_argument("--kernel", action="append", default=[], help="Of the catalogue; may be repeated; else all")
    parser.add_argument("--predict", action="store_true", help="Predicted times too")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    found = recording(options.device, options.shape or SHAPES, options.kernel, predict=options.predict)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for line in (wrong := defects(found)):
        print(line)
    seconds = time.perf_counter() - start
    print(f"{found['device']}: {len(found['kernels'])} verified, {len(wrong)} wrong, {seconds:.0f} s: {options.out}")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
