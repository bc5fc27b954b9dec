"""Metrics of Nsight Compute by the ladder's names of the same counts, and a reader of its output.

Source: Nsight Compute documentation, "Metrics Decoder" and the `--csv --page raw` output.
"""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

#: Count -> Nsight Compute's metric.
METRICS = {
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "machine_instructions": "smsp__inst_executed.sum",
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "occupancy_percent": "sm__maximum_warps_per_active_cycle_pct",
    "duration_ns": "gpu__time_duration.sum",
}


def find() -> str | None:
    """The profiler's path, or None."""
    found = shutil.which("ncu")
    if found:
        return found
    places = [*sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu")), Path("/usr/local/cuda/bin/ncu")]
    return next((str(place) for place in reversed(places) if place.exists()), None)


def command(ncu: str, *program: str) -> list[str]:
    """The command that runs a program under the profiler and prints a table, one row a launch."""
    plain = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]  # counts need no fixed clock
    return [ncu, *plain, "--metrics", ",".join(METRICS.values()), *program]


def read(text: str) -> list[dict[str, float | None]]:
    """Turn the profiler's table into one dict of counts a launch, in order.

    The table starts after lines that begin with `==`; its first row names columns, its second their units.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"the profiler printed no table:\n{text[-2000:]}")
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
    return [{name: _number(row.get(metric)) for name, metric in METRICS.items()} for row in rows if row["ID"]]


def _number(text: str | None) -> float | None:
    """A count; None if this GPU, or this release of the profiler, has none."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
