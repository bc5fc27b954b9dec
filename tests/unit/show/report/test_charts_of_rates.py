"""Charts of a sweep: one line a contender, roofs above, tables by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright import machine
from tilewright.show.rates.record import Point, Rate, Sweep
from tilewright.show.report.charts import rates, svg
from tilewright.show.report.charts.records import Heat, Lines
from tilewright.show.report.charts.terminal import blocks
from tilewright.show.report.records import text_of


def rate(name: str, device: str, n: int, seconds: float, kind: Any = "measured", **more: Any) -> Rate:
    point = Point(name, device, more.pop("dtype", "float32"), n, n, more.pop("k", n), **more)
    return Rate(point, kind, seconds, 0.8 * seconds, 1.25 * seconds)


def charts(*found: Rate) -> tuple[Any, ...]:
    return rates.charts(Sweep({}, {}, found))


def test_each_contender_has_a_line_over_sizes() -> None:
    (chart,) = charts(
        rate("numpy", "cpu", 128, 2e-6), rate("numpy", "cpu", 64, 1e-6), rate("tiled", "a6000", 64, 4e-6, "predicted")
    )
    assert isinstance(chart, Lines)
    numpy, tiled, roof = chart.series
    assert (numpy.name, numpy.kind) == ("numpy, cpu", "measured")
    assert [at for at, _ in numpy.points] == [64, 128]
    assert numpy.points[0][1] == pytest.approx(2 * 64**3 / 1e-6 / 1e9)
    low, high = numpy.band[0]
    assert (low, high) == (pytest.approx(numpy.points[0][1] / 1.25), pytest.approx(numpy.points[0][1] / 0.8))
    assert (tiled.kind, roof.kind) == ("predicted", "limit")
    assert "quartiles" in chart.note and "stated error" in chart.note
    assert "nan" not in svg.text(chart)


def test_the_roof_is_memory_below_and_arithmetic_above() -> None:
    (chart,) = charts(*(rate("tiled", "a6000", n, n / 1e6, "predicted") for n in (32, 4096)))
    gpu, roof = machine.gpu("a6000"), dict(chart.series[-1].points)
    assert roof[4096] == pytest.approx(gpu.peak_gflops("float32"))
    assert roof[32] == pytest.approx(2 * 32**3 / (3 * 32 * 32 * 4) * gpu.memory_gb_per_s)


def test_a_dtype_without_a_stated_rate_has_no_roof() -> None:
    (chart,) = charts(rate("tiled", "a6000", 64, 1e-6, "predicted", dtype="int8"))
    assert [one.kind for one in chart.series] == ["predicted"]


def test_measured_and_predicted_of_one_name_are_two_lines() -> None:
    (chart,) = charts(rate("tiled", "a6000", 64, 1e-6), rate("tiled", "a6000", 64, 2e-6, "predicted"))
    assert [one.kind for one in chart.series] == ["measured", "predicted", "limit"]


def test_warm_and_cold_caches_are_two_lines() -> None:
    (chart,) = charts(rate("numpy", "cpu", 64, 1e-6), rate("numpy", "cpu", 64, 2e-6, caches="cold"))
    assert [one.name for one in chart.series] == ["numpy, cpu", "numpy, cpu, cold"]


def test_points_that_are_wrong_failed_or_not_square_are_left_out() -> None:
    wrong = Rate(Point("a", "cpu", "int32", 8, 8, 8), "measured", 1.0, 1.0, 1.0, verified="wrong: 3 differ")
    failed = Rate.failure(wrong.point, "measured", ValueError("no room"))
    assert charts(wrong, failed, rate("a", "cpu", 8, 1.0, k=9)) == ()


def test_many_lines_get_a_chart_a_device() -> None:
    found = charts(*(rate(f"k{i}", device, 8, 1.0) for i in range(6) for device in ("cpu", "opencl")))
    assert [chart.title for chart in found] == ["float32 rate against size, cpu", "float32 rate against size, opencl"]


def test_blocks_make_a_table() -> None:
    some = [rate(f"tile_{e}", "a6000", n, 1e-6 * e, "predicted", block=e) for e in (16, 8) for n in (64, 32)]
    _, table = charts(*some[:-1])
    assert isinstance(table, Heat)
    assert (table.rows, table.columns, table.column_title) == (("32", "64"), ("8", "16"), "edge of a block")
    assert [[cell and cell.kind for cell in row] for row in table.cells] == [[None, "predicted"], ["predicted"] * 2]
    cell = table.cells[1][0]
    assert cell is not None and cell.value == pytest.approx(2 * 64**3 / 8e-6 / 1e9)


def test_results_a_thread_make_a_table_of_their_own() -> None:
    found = charts(*(rate(f"results_{r}", "v100", 64, 1e-6, "predicted", block=32, results=r) for r in (1, 2)))
    assert (found[1].columns, found[1].column_title) == (("1", "2"), "results per thread")


def of_table(name: str, *found: Rate) -> tuple[Any, ...]:
    return rates.charts(Sweep({"table": name}, {}, found))


def test_a_source_s_figures_are_beside_ours() -> None:
    sizes = ((8, 64), (16, 64), (8, 32))
    some = [rate("global_memory", "v100", n, 1e-6, "predicted", dtype="int32", block=e) for e, n in sizes]
    lines, ours, source = of_table("S8", *some)
    assert [(one.name, one.kind) for one in lines.series][:4] == [
        ("global_memory, 8 x 8, v100", "predicted"), ("global_memory, 16 x 16, v100", "predicted"),
        ("S8, edge of a block 8", "stated"), ("S8, edge of a block 16", "stated"),
    ]  # fmt: skip
    assert dict(lines.series[2].points) == {64: 117.014, 32: 15.675}  # as the source prints them
    assert "S8's figures are of a GPU that it does not name" in lines.note
    assert (ours.rows, ours.columns) == (source.rows, source.columns) == (("32", "64"), ("8", "16"))
    assert [[cell and cell.value for cell in row] for row in source.cells] == [[15.675, None], [117.014, 101.927]]
    drawn = svg.text(lines)
    assert drawn.count("S8, edge of a block 8: ") == 2 and "S8, edge of a block 8 (predicted)" not in drawn
    assert "S8, edge of a block 16 (stated)" in text_of(blocks(lines))


def test_a_source_s_teraflops_are_reported_in_the_charts_unit() -> None:
    found = (rate(f"results_{r}", "v100", 1024, 1e-3, "predicted", block=32, results=r) for r in (1, 32))
    lines, _, source = of_table("S12", *found)
    assert "stated" not in {one.kind for one in lines.series}  # one size makes a table, no line
    assert [(name, cell.value) for name, cell in zip(source.columns, source.cells[0], strict=True)] == [
        ("1", pytest.approx(3670)), ("32", pytest.approx(5323)),
    ]  # fmt: skip


def test_a_source_without_figures_adds_nothing() -> None:
    (chart,) = of_table("S13", rate("results_8", "v100", 64, 1e-6, "predicted", block=32, results=8))
    assert "stated" not in {one.kind for one in chart.series}


def test_a_disturbed_time_is_a_cross_and_the_note_says_so() -> None:
    calm = rate("numpy", "cpu", 64, 1e-6)
    (plain,) = charts(calm, rate("numpy", "cpu", 128, 2e-6))
    (marked,) = charts(calm, replace(rate("numpy", "cpu", 128, 2e-6), flags=("noisy",)))
    assert "cross" not in plain.note and "a cross is a disturbed time (quartiles more than 10 % of the" in marked.note
    assert marked.series[0].doubtful == {128.0} and not plain.series[0].doubtful
    cross = "l9,9m-9,0l9,-9"
    assert (svg.text(plain).count(cross), svg.text(marked).count(cross)) == (0, 1)
