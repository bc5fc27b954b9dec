"""The report of a product larger than memory: its plan and its time."""

from __future__ import annotations

from typing import Any

from tilewright.multiply.blocks.planning import BlockPlan
from tilewright.simulate.machine.sizes import duration_text


def document(plan: BlockPlan | None, seconds: float | None) -> dict[str, Any]:
    """The plan as JSON values, and the seconds that the product took, if it was made."""
    if plan is None:
        return {"plan": None, "rates": None, "extents": [], "batch": 0, "seconds": seconds}
    rates = plan.rates
    names = "rows columns depth tiles_held by_columns held_bytes read_bytes written_bytes least_bytes seconds".split()
    return {
        "extents": list(plan.sizes.extents),
        "batch": plan.sizes.batch,
        "plan": {name: getattr(plan, name) for name in names} | {"grid": list(plan.grid)},
        "rates": {"flops": rates.flops, "read_bytes": rates.read_bytes, "write_bytes": rates.write_bytes},
        "seconds": seconds,
    }


def outcome(name: str, what: str, plan: BlockPlan | None, seconds: float, kept: int) -> str:
    """The line of the result; `kept` tiles were there before.

    >>> outcome("c.npy", "0 x 3 float32", None, 0.1, 0)
    'c.npy: 0 x 3 float32'
    """
    if plan is None:
        return f"{name}: {what}"
    made = plan.tiles - kept
    rate = plan.sizes.flops * made / plan.tiles / max(seconds, 1e-9) / 1e9
    before = f"; {kept:,} of {plan.tiles:,} tiles were there already" if kept else ""
    time = f"{seconds:.2f} s" if seconds < 10 else duration_text(seconds)
    return f"{name}: {what} in {time}" + (f", {rate:,.3g} GFLOPS" if made else "") + before
