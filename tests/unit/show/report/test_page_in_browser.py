"""The page of a real sweep in a real browser: no messages, no downloads, a layout that fits, and controls that work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import fakes
import pytest
from family import gpu_of

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")
if browser.found() is None:
    pytest.skip(f"no browser: none of {', '.join(browser.NAMES)} is on the path", allow_module_level=True)

from tilewright import catalogue, machine
from tilewright.cli import bench, report as command
from tilewright.multiply.kernels.catalogue import Record
from tilewright.observe.profiling.steps import steps
from tilewright.observe.profiling.watching import usual_extents, watch
from tilewright.show.rates import turns
from tilewright.show.rates.plan import Asked
from tilewright.show.report.html import lanes, page, partition, report
from tilewright.show.report.html.report import Material

WIDTHS = (400, 800, 1600)
KERNELS = [one for one in catalogue.records() if one.backend == "gpu"]


@pytest.fixture(scope="module")
def material() -> Material:
    asked = Asked(
        kernels=("shared_memory_8", "shared_memory_16", "matmul"),
        sizes=((32, 32, 32), (64, 64, 64)),
        devices=("cpu", "a6000"),
        against=("numpy",),
        dtypes=("int32",),
        samples=3,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "Host", lambda: fakes.IDLE)
        sweep, _ = bench._swept(asked, None, peers_named=True)
    return command._gathered("vectorised", ["130x128x16"], None, "a6000", ("coalesced", "padded"), sweep)


@pytest.fixture(scope="module")
def written(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(report.text(material), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.opened(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def text(shown: browser.Page, selector: str) -> str:
    found: str = shown.run(f"document.querySelector({json.dumps(selector)}).textContent")
    return found


def test_the_page_is_small_and_has_all_parts(written: Path) -> None:
    assert 50_000 < written.stat().st_size < page.MOST_BYTES
    found = written.read_text(encoding="utf-8")
    for name in ("partition", "lanes", "bound", "ladder", "rates", "occupancy", "findings"):
        assert f'<section id="{name}">' in found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_complains_of_nothing(shown: browser.Page, written: Path, width: int, dark: bool) -> None:
    shown.open(written, width, dark=dark)
    assert shown.run("document.documentElement.scrollWidth") == width
    parts = 3 + 2 + 1 + 2  # frames, elements loaded now, elements stored, blocks to choose
    assert shown.run("document.querySelectorAll('#partition svg rect').length") == parts
    assert shown.run("document.querySelectorAll('#lanes .picture rect').length") > 60
    charts = (
        "[...document.querySelectorAll('.chart svg')].map((one) => one.getBoundingClientRect().width).filter(Boolean)"
    )
    widths = shown.run(charts)
    assert len(widths) == shown.run("document.querySelectorAll('.chart').length")
    assert 300 < min(widths) and max(widths) <= width
    assert shown.complaints == []


def test_the_sweep_s_conditions_are_seen_and_its_table_opens(shown: browser.Page, written: Path) -> None:
    shown.open(written, 400)
    said = text(shown, "#rates .tilewright")
    assert "a6000: NVIDIA RTX A6000: predicted by a model, not measured" in said and " threads, load " in said
    row = "document.querySelector('#rates details tbody tr').checkVisibility()"
    assert shown.run(row) is False
    shown.run("document.querySelector('#rates summary').click()")
    assert shown.run(row) is True
    assert shown.run("document.documentElement.scrollWidth") == 400


def test_a_window_that_becomes_narrow_is_drawn_again_without_complaint(shown: browser.Page, written: Path) -> None:
    shown.open(written, 1600)
    width = "document.querySelector('#lanes .picture svg').getBoundingClientRect().width"
    wide = shown.run(width)
    shown.run("window.heard = []; addEventListener('error', (event) => heard.push(event.message)); 1")
    shown.send("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=False)
    shown.run("new Promise((done) => setTimeout(() => done(1), 300))")
    assert shown.run(width) < min(400, wide)
    assert shown.run("heard.join()") == ""


def test_complaints_are_collected(shown: browser.Page, tmp_path: Path) -> None:
    """Without this, an empty list of complaints would prove nothing."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!DOCTYPE html><img src='http://127.0.0.1:9/x.png'><script>console.error('a'); nothing()</script>")
    shown.open(bad, 400)
    said = " ".join(shown.complaints)
    assert "a" in said and "nothing is not defined" in said and "loads http://127.0.0.1:9/x.png" in said


def test_arrow_keys_step_through_what_was_loaded(shown: browser.Page, written: Path, material: Material) -> None:
    shown.open(written, 1000)
    blocks = steps(material.seen).blocks
    last = blocks[-1]
    assert len(last.loaded) == 2
    now = "[...document.querySelectorAll('#partition [data-step=now]')].map((one) => one.outerHTML).join()"
    shown.run("document.querySelector('#partition .picture').focus()")
    first = shown.run(now)
    assert text(shown, "#partition .formula .now") == "A21\u00b7B11"
    shown.press("ArrowRight")
    assert shown.run(now) != first
    a, b = last.loaded[1]
    often = f", asked for {a.asked / a.elements:.1f} times each".replace(".0", "") if a.asked > a.elements else ""
    words = f"Step 2 of 2 loads elements: {a.elements:,} of A{often}; {b.elements:,} of B."
    assert text(shown, "#partition .status") == words
    assert text(shown, "#partition .formula .now") == "A22\u00b7B21"
    shades = "[...document.querySelectorAll('#partition [data-step]')].map((one) => one.dataset.step).sort().join()"
    assert shown.run(shades) == "before,before,now,now"
    shown.press("ArrowRight")  # there is no further one
    assert text(shown, "#partition .status") == words
    shown.press("ArrowUp")
    assert text(shown, "#partition .formula").startswith("C11 = ")
    assert "1,024 of A" in text(shown, "#partition .status")
    shown.press("Home")
    assert text(shown, "#partition .formula .now") == "A11\u00b7B11"


def test_of_many_steps_those_around_the_current_one_are_named(shown: browser.Page, tmp_path: Path) -> None:
    seen = watch(catalogue.find("shared_memory_8"), 8, 8, 320, "int32", machine.gpu("a6000"))
    path = tmp_path / "page.html"
    path.write_text(page.document("many", "", [], [partition.part(seen)]), encoding="utf-8")
    shown.open(path, 1000)
    assert "of 40 loads" in text(shown, "#partition .status")
    shown.run("document.querySelector('#partition .picture').focus()")
    for _ in range(20):
        shown.press("ArrowRight")
    terms = text(shown, "#partition .formula").removeprefix("C11 = ").split(" + ")
    dots = "\u2026"
    around = [f"A1,{k}\u00b7B{k},1" for k in range(17, 26)]
    assert terms == ["A11\u00b7B11", dots, *around, dots, "A1,40\u00b7B40,1"]
    shown.press("End")
    assert text(shown, "#partition .formula .now") == "A1,40\u00b7B40,1"
    assert shown.complaints == []


@pytest.mark.volume
@pytest.mark.parametrize(
    "record", [one for one in catalogue.records() if one.backend == "gpu"], ids=lambda one: one.name
)
def test_every_kernel_has_a_page(shown: browser.Page, tmp_path: Path, record: Record) -> None:
    path = tmp_path / "page.html"
    seen = watch(record, *usual_extents(record), record.dtypes[0], machine.gpu(gpu_of(record)))
    path.write_text(page.document(record.name, "", [], [partition.part(seen), lanes.part(seen.kept)]), encoding="utf-8")
    assert path.stat().st_size < 300_000
    for width in WIDTHS:
        shown.open(path, width)
        assert shown.run("document.documentElement.scrollWidth") == width
        assert shown.complaints == []
    drawn = partition.part(seen).values
    assert drawn is not None
    assert {tuple(one["at"]) for one in drawn["blocks"]} == {(i, j) for i in range(3) for j in range(3)}


def test_rectangles_cover_what_the_run_loaded(shown: browser.Page, written: Path, material: Material) -> None:
    shown.open(written, 1000)

    def boxes(which: str) -> list[list[float]]:
        sides = "['x', 'y', 'width', 'height'].map((name) => Number(one.getAttribute(name)))"
        found: list[list[float]] = shown.run(f"[...document.querySelectorAll('{which}')].map((one) => {sides})")
        return found

    of_a, of_b = boxes("#partition [data-step=now]")
    cuts = boxes("#partition rect[fill=none]")
    a, b = steps(material.seen).blocks[-1].loaded[0]
    ((row, column, high, wide),) = a.rectangles
    unit = of_b[2] / b.rectangles[0][3]
    assert (row, row + high) == (128, 130)
    assert [of_a[2] / unit, of_a[3] / unit] == pytest.approx([wide, high])
    assert (of_a[0] - min(x for x, *_ in cuts)) / unit == pytest.approx(column)
    assert of_a[1] + of_a[3] == pytest.approx(max(y + height for _, y, _, height in cuts))  # A's last rows


def test_a_block_of_c_and_a_lane_can_be_clicked(shown: browser.Page, written: Path) -> None:
    shown.open(written, 1000)
    click = "document.querySelector('{}').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    assert shown.run("document.querySelector('#partition select').value") == "1"
    shown.run(click.format('#partition rect[cursor="pointer"]'))
    assert shown.run("document.querySelector('#partition select').value") == "0"
    shown.run(click.format("#lanes .picture rect:nth-of-type(8)"))
    assert text(shown, "#lanes .lane").startswith("Lane 7 ")
    shown.run("document.querySelector('#lanes .picture').focus()")
    shown.press("ArrowDown")
    assert text(shown, "#lanes .lane").startswith("Lane 8 ")


#: Steps through every execution of every access, and reads the counts that the drawing shows.
_EVERY = """
(() => {
  const root = document.getElementById('lanes'), does = (name) => root.querySelector(`[data-do="${name}"]`);
  const set = (select, value) => { select.value = value; select.dispatchEvent(new Event('change')); };
  const found = [];
  for (const button of root.querySelectorAll('[data-at]')) {
    button.click();
    for (const site of [...does('site').options].map((one) => one.value)) {
      set(does('site'), site);
      for (const warp of [...does('warp').options].map((one) => one.value)) {
        set(does('warp'), warp);
        for (let last = ''; last !== root.querySelector('.which').textContent; does('on').click()) {
          last = root.querySelector('.which').textContent;
          const fills = [...root.querySelectorAll('.picture rect')].slice(32).map((one) => one.getAttribute('fill'));
          const sectors = fills.filter((_, at) => at % 8 === 0).filter((_, at) =>
            fills.slice(8 * at, 8 * at + 8).some((one) => !one.includes('panel'))).length;
          const painted = fills.filter((one) => !one.includes('panel')).length;
          const bad = fills.some((one) => one.includes('bad'));
          found.push([Number(site), Number(warp), fills.length / 32, sectors, painted, bad,
            root.querySelector('.status b').textContent]);
        }
      }
    }
  }
  return found;
})()
"""


def test_every_picture_shows_as_many_wavefronts_or_sectors_as_were_counted(shown: browser.Page, written: Path) -> None:
    shown.open(written, 1000)
    values: dict[str, Any] = shown.run("valuesOf('lanes')")
    drawn = shown.run(_EVERY)
    wanted = []
    for number, site in enumerate(values["sites"]):
        for warp in dict.fromkeys(run[0] for run in site["runs"]):
            for run in (run for run in site["runs"] if run[0] == warp):
                wanted.append((number, warp, site["space"], run[3], run[4]))
    assert len(drawn) == len(wanted) > 100
    assert {site["space"] for site in values["sites"]} == {"global", "shared"}
    conflicts = 0
    for (number, warp, rows, sectors, painted, bad, said), expected in zip(
        sorted(drawn, key=lambda one: one[:2]), sorted(wanted, key=lambda one: one[:2]), strict=True
    ):
        _, _, space, amount, ideal = expected
        assert (number, warp) == expected[:2]
        assert (rows if space == "shared" else sectors) == amount
        assert said.split()[0] == str(amount)
        if space == "shared":
            assert bad == (amount > ideal)
            conflicts += bad
        else:
            assert painted == 8 * amount  # the words that lanes use, and those that move with them
    assert conflicts > 0
    for site in values["sites"]:
        if site["space"] == "shared" and not site["left"]:  # both blocks make the same accesses
            assert 2 * sum(run[3] for run in site["runs"]) == site["all"][1]


def test_dark_has_other_colours_and_print_is_light(shown: browser.Page, written: Path) -> None:
    colours = "getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).color"
    seen = {}
    for name, dark, media in (("light", False, "screen"), ("dark", True, "screen"), ("print", True, "print")):
        shown.open(written, 1000, dark=dark, media=media)
        seen[name] = shown.run(colours)
    assert seen["light"] == seen["print"] != seen["dark"]
    assert shown.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert shown.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    shown.open(written, 700, media="print")  # about the width of paper
    assert shown.run("document.documentElement.scrollWidth") == 700
    printed = shown.pdf()
    assert printed.startswith(b"%PDF") and len(printed) > 20_000
    assert shown.complaints == []


def test_everything_can_be_reached_by_keyboard(shown: browser.Page, written: Path) -> None:
    shown.open(written, 1000)
    wanted = shown.run("document.querySelectorAll('button, select, .picture, nav a').length")
    reached = set()
    for _ in range(wanted + 5):
        shown.press("Tab")
        reached.add(
            shown.run(
                "[...document.querySelectorAll('button, select, .picture, nav a')].indexOf(document.activeElement)"
            )
        )
    assert set(range(wanted)) <= reached


@pytest.mark.parametrize("width", [800, 1280])
def test_two_launches_of_a_program_are_beside_each_other(
    shown: browser.Page, material: Material, tmp_path: Path, width: int
) -> None:
    """Both in frames as high as their pages, which fit their width."""
    kept = material.seen.kept
    second = replace(kept, profile=replace(kept.profile, kernel="second", launch=1))
    text, count = report.of_program("program.py", [(kept, material.time), (second, None)], material.gpu)
    assert count == 2
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    shown.open(path, width)
    shown.run(
        "const pick = document.getElementById('beside'); pick.value = '1'; pick.dispatchEvent(new Event('change'))"
    )
    shown.run("new Promise((done) => setTimeout(() => done(1), 1500))")
    frames = "[...document.querySelectorAll('iframe')]"
    titles = shown.run(f"{frames}.map((one) => one.contentDocument.querySelector('h1').textContent)")
    assert titles == [kept.profile.kernel, "second"]
    clipped = "one.contentDocument.documentElement"
    assert shown.run(f"{frames}.filter((one) => {clipped}.scrollWidth > {clipped}.clientWidth).length") == 0
    assert shown.run(f"{frames}.filter((one) => {clipped}.scrollHeight > one.offsetHeight).length") == 0
    assert shown.run("document.documentElement.scrollWidth") == width
    tops = shown.run(f"{frames}.map((one) => one.getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    assert shown.complaints == []
