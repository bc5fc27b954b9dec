"""Tables of benchmarks fit a terminal."""

from __future__ import annotations

import io

import pytest
import simt_speed
from measuring import Spread
from rich.console import Console

from tilewright.multiply.kernels import catalogue


@pytest.mark.parametrize("host", ["own", "avx2"])
def test_no_line_of_the_simulators_speed_is_broken(host: str) -> None:
    figures = {
        "seconds": Spread(0.2121, 0.1121, 0.434, 9),
        "host_gflops": Spread(0.0666, 0.0655, 0.0777, 9),
        "processor_gflops": Spread(0.0666, 0.0655, 0.0777, 9),
        "warp_instructions_per_second": Spread(3.1e9, 1.1e9, 3.2e9, 9),
    }
    names = [record.name for record in catalogue.records() if record.backend == "gpu"]
    rows = [
        {"name": name, "source": "S11", "dtype": "float64", "host": host, "verified": name != names[0], **figures}
        for name in names
    ]
    out = io.StringIO()
    table = simt_speed.speed_table({"size": 512, "threads": 2, "kernels": rows})
    Console(file=out, width=80).print(table)
    lines = out.getvalue().splitlines()
    assert len(lines) == 5 + 2 * len(names) + 1 + 2  # title and head, two a kernel, one more, end and caption
    assert all(any(line.startswith(f" {name} ") for line in lines) for name in names)
    assert [line.strip() for line in lines].count("WRONG PRODUCT") == 1
    assert "0.0655-0.0777" in out.getvalue()
    assert "…" not in out.getvalue()
