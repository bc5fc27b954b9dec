"""Broken tensor maps cannot damage the process: random fields, 1 to 5 dimensions, boxes and pixels, copied and added.

A kernel gets 128 bytes in the machine's own layout, with random addresses, strides, extents and boxes. For each: it
ran or gave a TilewrightError, and no byte changed around its arenas.

    python benchmarks/tensor_maps.py [--count 20000] [--seed 1] [--json]
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import measuring
import numpy as np
from guarded_memory import watched

from tilewright.errors import TilewrightError
from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.state import GLOBAL_BASE, TENSOR_MAGIC, TENSOR_MAP_RECORD

SHARED_BYTES, AXES, LIMIT_SECONDS = 32768, 5, 0.5
LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%m, {{{at}}}], [%o];"
IMAGES = (
    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%s], [%m, {{{at}}}], "
    "[%o], {{{offsets}}};"
)
PIXELS = "cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group [%m, {{{at}}}], [%s];"
ADD = "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.bulk_group [%m, {{{at}}}], [%s];"
STORE = "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%m, {{{at}}}], [%s];"
KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_out) {{
.shared .align 1024 .b8 box[{bytes}];
.shared .align 8 .b64 object;
.reg .b32 %s, %o; .reg .b64 %m;
mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %s, box; mov.u32 %o, object;
mbarrier.init.shared::cta.b64 [%o], 1;
{copy}
ret;
}}
"""


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kernels = [(program(copy, rank), rank, False) for copy in (LOAD, STORE, ADD) for rank in range(1, AXES + 1)]
    kernels += [(program(copy, rank), rank, True) for copy in (IMAGES, PIXELS) for rank in range(3, AXES + 1)]
    outcomes: Counter[str] = Counter()
    changed = 0
    for _ in range(options.count):
        kernel, rank, images = draw.choice(kernels)
        with watched() as watch:
            outcomes[outcome(kernel, record(draw, rank, images=images))] += 1
            changed += watch.changed()
    rows = [(name, f"{count:,}") for name, count in outcomes.most_common()]
    caption = f"{changed} bytes outside the arenas changed."
    table = measuring.table(f"{options.count:,} random tensor maps", ("outcome", "maps"), rows, caption)
    measuring.publish({"outcomes": outcomes, "changed_bytes": changed}, [table], as_json=options.json)


def program(copy: str, rank: int) -> Program:
    """A kernel of one copy, at corner (0, 1, 2 ...), with offsets 65535, 1, 1."""
    at, offsets = ", ".join(map(str, range(rank))), ", ".join(("65535", "1", "1")[: max(rank - 2, 0)])
    text = copy.format(rank=rank, at=at, offsets=offsets)
    return Program.from_ptx(KERNEL.format(bytes=SHARED_BYTES, copy=text))


def outcome(kernel: Program, record: Any) -> str:
    """The outcome of a launch."""
    try:
        launch(kernel, 1, 1, (record.tobytes(), np.zeros(SHARED_BYTES, np.uint8)), limits=Limits(seconds=LIMIT_SECONDS))
    except TilewrightError as error:
        return type(error).__name__
    return "ran"


def record(draw: random.Random, rank: int, *, images: bool) -> Any:
    """A tensor map; most of its fields may be valid."""
    made = np.zeros((), TENSOR_MAP_RECORD)
    made["magic"], made["rank"] = TENSOR_MAGIC, rank if draw.random() < 0.95 else wild(draw, 32)
    made["element_bytes"], made["units"] = (
        draw.choice((1, 2, 4, 4, 8, 3, 0, 16)),
        draw.choice((1, 1, 2, 4, 8, 0, 3, 65535)),
    )
    made["type"] = draw.choice((2, 6, 7, 8, 9, 9, draw.randrange(16), wild(draw, 16)))
    for axis in range(AXES):
        made["box"][axis] = draw.choice((1, 2, 4, 8, 16, draw.randrange(300)))
        made["steps"][axis] = draw.choice((1, 1, 1, 2, 8, 0, 9))
        made["extents"][axis] = draw.choice((1, 4, 64, 1000, wild(draw, 32)))
    for axis in range(AXES - 1):
        made["strides"][axis] = draw.choice((16, 64, 1024, wild(draw, 64)))
    if images != (draw.random() < 0.05):
        made["pixels"] = draw.choice((1, 7, 100, 1024, 1025, 65535))
        made["low"], made["high"] = ([draw.choice((0, -1, -9, 2, 32767, -32768)) for _ in range(3)] for _ in range(2))
    near = GLOBAL_BASE + draw.randrange(0, 2 * SHARED_BYTES, 16)
    made["address"] = draw.choice((near, GLOBAL_BASE + 4096, GLOBAL_BASE - 16, wild(draw, 64)))
    return made


def wild(draw: random.Random, bits: int) -> int:
    """A number that is small, large, or at an end of its range."""
    return draw.choice(
        (0, 1, 3, 16, draw.getrandbits(bits), draw.getrandbits(bits // 2), (1 << bits) - 1, 1 << (bits - 1))
    )


if __name__ == "__main__":
    main()
