"""The first screen, 80 cells by 24 lines: what was verified, the steps with their predicted times, what to try next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from tilewright.ground import installation
from tilewright.multiply.problem.dtypes import element
from tilewright.observe.prediction.launches import BAND
from tilewright.show.ladder.rung import Rung
from tilewright.show.ladder.steps import StepTime
from tilewright.show.ladder.story import Story
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Gap, Line, words
from tilewright.show.report.climb import BOUNDED, needs
from tilewright.show.report.tables import RIGHT, SECONDS, Column, Table, group

#: Its cells, whatever the terminal has: lines that one reads, and a picture that fits a page.
WIDTH = 80
_BAR_CELLS = 8
#: Wrong kernels that are named, a line each; `--full` shows all.
_MOST_NAMED = 3
_TITLES = (
    "C = A x B from three loops to tensor cores, on a simulated {}",
    "C = A x B, on a simulated {}",
)
_NEXT = (
    ("tilewright check FILE.py", "find races and bad indices in your kernel"),
    ("tilewright profile FILE.py", "its traffic, line by line"),
    ("tilewright ladder --full", "all kernels, all counts"),
    ("docs/lessons", "why each step is faster"),
)


def blocks(story: Story, seconds: float) -> Iterator[Block]:
    """The screen of a story that took some seconds."""
    yield Line(_title(story.gpu, seconds))
    yield Line(_verified([rung for rung in story.climb.rungs if not _is_elsewhere(rung)]))
    yield from _wrong(story.climb.rungs)
    yield Gap()
    if story.steps:
        wrong = {rung.name for rung in story.climb.rungs if rung.verified is False}
        yield _steps(story, wrong)
        yield from _footnotes(story.steps)
    yield from _host(story)
    if elsewhere := [rung for rung in story.climb.rungs if _is_elsewhere(rung)]:
        yield Line(Text.assemble(("Your OpenCL device", "bold"), ": ", _verified(elsewhere)))
    for extra, count in story.climb.missing.items():
        yield words(f"{figures.amount(count, 'kernel')} not run; to run them: {installation.extra(extra)}")
    if story.interrupted:
        yield words(("Stopped by Ctrl-C: this is what was found until then.", styles.WARNING))
    yield Gap()
    for number, (command, what) in enumerate(_NEXT):
        head = "" if number else "Next"
        space = " " * (6 - len(head))
        yield Line(Text.assemble((head, "bold"), space, (f"{command:<31}", styles.PLACE), what))


def _title(gpu: str, seconds: float) -> Text:
    """The step that was done, and at the right end how long it took."""
    name = gpu.upper() if gpu.replace("-", "").isalnum() else gpu
    took = figures.seconds(seconds) if seconds < 9.95 else f"{seconds:.0f} s"
    fitting = (title.format(name) for title in _TITLES if cell_len(title.format(name)) + 2 + len(took) <= WIDTH)
    title = next(fitting, "C = A x B")
    return Text.assemble((title, styles.HEADING), " " * (WIDTH - cell_len(title) - len(took)), (took, styles.QUIET))


def _verified(rungs: Sequence[Rung]) -> Text:
    """A tick or a cross for each kind of verdict with its count, and what this GPU lacks."""
    ran = [r for r in rungs if not r.published and r.verified is not None]
    parts = []
    for bounded, claim in ((False, "bit for bit"), (True, "within their bound")):
        kind = [r for r in ran if (r.order == BOUNDED) == bounded]
        right = sum(bool(r.verified) for r in kind)
        one = "" if bounded else "kernel" if len(kind) == 1 else "kernels"
        if right == len(kind) and kind:
            parts.append(Text(" ".join(filter(None, (f"✓ {right}", one, claim))), styles.GOOD))
        elif kind:
            parts.append(Text(" ".join(filter(None, (f"✗ {right} of {len(kind)}", one, claim))), styles.ERROR))
    if elsewhere := needs(rungs):
        room = WIDTH - sum(len(part) + 3 for part in parts)
        parts.append(Text(elsewhere if len(elsewhere) <= room else elsewhere.replace("--gpu ", ""), styles.QUIET))
    return Text("   ").join(parts) if parts else Text("No kernel ran.")


def _is_elsewhere(rung: Rung) -> bool:
    """Whether a kernel ran on a device of its own beside the simulated GPU."""
    return rung.device not in ("cpu", "simulated")


def _wrong(rungs: Sequence[Rung]) -> Iterator[Block]:
    """Name the kernels that are wrong, with the reason."""
    wrong = [r for r in rungs if r.verified is False and not r.published]
    named = wrong if len(wrong) <= _MOST_NAMED else wrong[: _MOST_NAMED - 1]
    for rung in named:
        reason = (
            rung.error.splitlines()[0] if rung.error else f"{figures.amount(rung.mismatches or 0, 'element')} wrong"
        )
        text = Text.assemble(("✗ ", styles.ERROR), (rung.name, styles.ERROR), f": {reason}")
        text.truncate(WIDTH, overflow="ellipsis")
        yield Line(text)
    if len(named) < len(wrong):
        yield Line(Text(f"✗ and {len(wrong) - len(named)} more: tilewright ladder --full", styles.ERROR))


def _steps(story: Story, wrong: set[str]) -> Table:
    """The steps; bars are on a logarithmic scale."""
    most = max((math.log(step.speed_up) for step in story.steps if step.speed_up), default=0.0)

    def bar(step: StepTime) -> str:
        if step.speed_up is None:
            return ""
        return figures.bar(max(math.log(step.speed_up), 1e-9), max(most, 1e-9), _BAR_CELLS)

    def kernel(step: StepTime) -> Text:
        return Text(f"✗ {step.kernel}", styles.ERROR) if step.kernel in wrong else Text(step.kernel, styles.HEADING)

    size = story.steps[0].size
    return Table(
        group(Column(f"{size} x {size}", kernel), Column("", lambda step: _short(step.dtype), style=styles.QUIET)),
        (
            group(
                Column("predicted*", lambda step: step.predicted_seconds, SECONDS, styles.PREDICTED),
                Column("speed-up", lambda step: figures.times(step.speed_up), RIGHT),
                Column("", bar, style=styles.BAR),
                Column("what changed", lambda step: step.changed),
            ),
        ),
        story.steps,
    )


def _short(dtype: str) -> str:
    """A float's bits.

    >>> _short("float32"), _short("bfloat16")
    ('f32', 'bf16')
    """
    kind = element(dtype)
    return f"f{kind.bits}" if dtype == f"float{kind.bits}" else dtype.replace("float", "f")


def _footnotes(steps: Sequence[StepTime]) -> Iterator[Block]:
    """That a model gives the times, how far published ones lie from it, and what it refused."""
    if any(step.predicted_seconds for step in steps):
        least, most = (f"{100 * (end - 1):+.0f}" for end in BAND)
        said = f"* a model; nothing was measured. Most published times lie within {least}/{most} %"
        yield Line(Text(said, styles.QUIET))
    for step in steps:
        if step.refused:
            yield words((f"{step.kernel}: no prediction: {step.refused}", styles.WARNING), hang=2)


def _host(story: Story) -> Iterator[Block]:
    """The host's product, measured, beside the three loops."""
    host = story.host
    if host is None:
        return
    p = story.climb.problem
    same = (p.m, p.n, p.k) == (host.size,) * 3
    loops = next((r.seconds for r in story.climb.rungs if same and r.source == "S5" and r.dtype == host.dtype), None)
    beside = "" if loops is None else f" (three loops: {figures.seconds(loops)})"
    text = f"{figures.seconds(host.seconds)}, {figures.rate(host.gflops)} GFLOPS{beside}"
    yield Line(Text.assemble(("Your CPU", "bold"), f", tw.matmul {host.size}^3: {text}"))
