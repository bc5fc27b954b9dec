"""The JSON documents of the commands: their names and fields. `make docs` writes docs/json.md from this table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.show.report.console import VERSION

PAGE = Path(__file__).resolve().parents[1] / "json.md"

#: Types of fields, as pages and tests call them, with those of Python's JSON values.
TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,), "number": (int, float), "integer": (int,), "truth": (bool,), "object": (dict,), "list": (list,),
    "null": (type(None),),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a document."""

    name: str
    types: str  #: Of `TYPES`, with `or` between several.
    text: str
    of: Mapping[str, str] | None = None  #: For an object, or a list of objects: fields that are always there.


@dataclass(frozen=True, slots=True)
class Document:
    """The JSON that a command prints."""

    name: str  #: Its `schema` is `tilewright.` and this.
    command: str  #: The command lines that print it.
    text: str
    fields: tuple[Field, ...]


_PROGRAM = Field(
    "program",
    "object",
    "how the program ended",
    {"status": "integer", "interrupted": "truth", "children_launched": "truth", "exception": "object or null"},
)
_FAILED = Field("failed", "list", "launches without a result", {"kernel": "text", "error": "text"})
_LAUNCH = {"kernel": "text", "gpu": "text", "grid": "list", "block": "list", "launch": "integer"}
_PREDICTED = {
    **_LAUNCH,
    "seconds": "number",
    "least_seconds": "number",
    "most_seconds": "number",
    "clock_mhz": "integer",
    "limiter": "text",
    "shares": "list",
    "notes": "list",
    "kind": "text",
}
_FINDING = {
    "code": "text",
    "severity": "text",
    "message": "text",
    "remedy": "text",
    "kernel": "text",
    "source": "text",
    "line": "integer",
    "block": "list or null",
    "thread": "list or null",
    "count": "integer",
    "details": "object",
}
_POINT = {
    "contender": "text",
    "device": "text",
    "dtype": "text",
    "m": "integer",
    "n": "integer",
    "k": "integer",
    "block": "integer",
    "results": "integer",
    "caches": "text",
}
DOCUMENTS = (
    Document("ladder", "ladder", "A climb: each kernel, verified and counted.", (
        Field("machine", "object", "what ran", {"gpu": "text", "device": "text", "host": "text", "tilewright": "text"}),
        Field("problem", "object", "the product", {"m": "integer", "n": "integer", "k": "integer", "dtypes": "list"}),
        Field("rungs", "list", "a kernel each, quantities that were not counted null",
              {"name": "text", "source": "text", "dtype": "text", "verified": "truth or null",
               "seconds": "number or null", "global_load_sectors": "integer or null",
               "registers_per_thread": "integer or null", "predicted_seconds": "number or null", "gpus": "list"}),
        Field("steps", "list", "the steps of the first screen, predicted; none where kernels or operands are chosen",
              {"kernel": "text", "dtype": "text", "size": "integer", "changed": "text",
               "predicted_seconds": "number or null", "speed_up": "number or null", "refused": "text"}),
        Field("host", "object or null", "`tw.matmul` here: `size`, `dtype`, median `seconds`, `calls`, `gflops`"),
        Field("interrupted", "truth", "whether Ctrl-C ended it early"),
    )),
    Document("matmul", "matmul", "A product of files: its plan, null if it was made at once, and its time.", (
        Field("seconds", "number or null", "the time of the product; null with `--plan`"),
        Field("plan", "object or null", "tiles, their order, and bytes"),
        Field("extents", "list", "m, n and k"),
        Field("batch", "integer", "products"),
        Field("rates", "object or null", "the rates that the plan assumes"),
        Field("kernel", "text or null", "the kernel of the catalogue that multiplied"),
        Field("dtype", "text", "of the product"),
    )),
    Document("kernels", "kernels", "The catalogue.", (
        Field("kernels", "list", "a kernel each",
              {"name": "text", "title": "text", "source": "text", "backend": "text", "dtypes": "list", "takes": "list",
               "order": "text", "published": "truth"}),
    )),
    Document("check", "check", "Findings, and how the program ended.", (
        Field("findings", "list", "a cause each, the same at other `places` with it", _FINDING),
        Field("suppressed", "list", "findings that a comment or an option suppresses", _FINDING),
        Field("held", "list", "findings that only `--strict` reports, if it is not given", _FINDING),
        Field("unused_suppressions", "list", "suppressions without effect"),
        Field("wrong_suppressions", "list", "suppressions that name no code"),
        Field("launches", "integer", "their number"),
        Field("kernels", "list", "names of kernels that were launched"),
        Field("unchecked", "object", "launches of each kernel that did not run to their end"),
        _PROGRAM,
        Field("codes", "object", "the meaning of each code that was found"),
    )),
    Document("codes", "check --codes", "The codes of findings.", (
        Field("codes", "object", "by code: title, rule, remedy, severity"),
    )),
    Document("profile", "profile", "The counts of each launch.", (
        Field("profiles", "list", "a launch each: totals, lines, units, traffic, the verdict, the predicted time",
              {**_LAUNCH, "lines": "list", "sites": "list", "units": "list", "verdict": "object",
               "predicted": "object or null"}),
        Field("kernels", "list", "a kernel each: its launches together",
              {"kernel": "text", "launches": "list", "least_seconds": "number",
               "predicted_seconds": "number or null"}),
        _FAILED, _PROGRAM,
    )),
    Document("predictions", "predict PROGRAM", "The predicted time of each launch of a program.", (
        Field("predictions", "list", "a launch each", _PREDICTED),
        Field("kernels", "list", "a kernel each: its launches together",
              {"kernel": "text", "launches": "list", "seconds": "number"}),
        Field("library", "list", "a product of a library each, with the kernel of the catalogue that has its time",
              {"call": "text", "shape": "list", "dtype": "text", "products": "integer", "kernel": "text or null",
               "seconds": "number or null"}),
        _FAILED, _PROGRAM,
    )),
    Document("catalogue_predictions", "predict", "Predicted times of kernels of the catalogue.", (
        Field("predictions", "list", "a kernel each, on each GPU, of each product",
              {"name": "text", "shape": "list", "dtype": "text", "gflops": "number", **_PREDICTED}),
    )),
    Document("rates", "bench", "A sweep: measured and predicted rates.", (
        Field("plan", "object", "what was asked for"),
        Field("conditions", "object", "the host at the start"),
        Field("rates", "list", "a point each; times of a failed one are null",
              {**_POINT, "kind": "text", "seconds": "number or null", "least_seconds": "number or null",
               "most_seconds": "number or null", "gflops": "number or null", "samples": "list", "verified": "text",
               "flags": "list", "failed": "text"}),
        Field("left_out", "list", "points that were asked for and have no rate, with the reason",
              {**_POINT, "reason": "text"}),
    )),
    Document("comparison", "compare", "Two sweeps compared.", (
        Field("threshold", "number", "the least slowdown that is reported"),
        Field("points", "list", "a point each; an open end of an interval is null",
              {**_POINT, "kind": "text", "old_seconds": "number or null", "new_seconds": "number or null",
               "ratio": "number or null", "least": "number or null", "most": "number or null", "verdict": "text"}),
        Field("only_old", "list", "points of the first sweep alone", _POINT),
        Field("only_new", "list", "points of the second alone", _POINT),
        Field("differing", "list", "conditions that differ"),
    )),
    Document("tuning", "tune", "What a tuner found.", (
        Field("products", "list", "a product each",
              {"device": "text", "extents": "list", "dtype": "text", "order": "text", "best": "text or null",
               "kernels": "list", "unkept": "text or null"}),
    )),
    Document("devices", "devices", "The devices of this machine.", (
        Field("devices", "list", "a device each, or why it is missing",
              {"device": "text", "name": "text", "kind": "text", "units": "integer", "memory_bytes": "integer",
               "commands": "list", "features": "list", "missing": "text"}),
    )),
    Document("gpus", "gpus", "The GPUs that are known.", (
        Field("gpus", "list", "a record each, as `--gpu FILE.json` takes it, with its `key`",
              {"key": "text", "name": "text", "multiprocessors": "integer"}),
    )),
    Document("occupancy", "occupancy", "Occupancy on GPUs, or of a program's kernels.", (
        Field("rows", "list", "a GPU, or a kernel of the program, each; the lists have the same with one change",
              {"kernel": "text or null", "gpu": "object", "demand": "object", "occupancy": "object",
               "steps_up": "list", "blocks": "list", "registers": "list", "shared": "list"}),
    )),
    Document("cache", "cache", "The cache of compiled kernels.", (
        Field("folder", "text", "where it is"),
        Field("entries", "integer", "its files"),
        Field("bytes", "integer", "their size"),
        Field("removed_bytes", "integer", "what `--clear` removed"),
        Field("unusable", "text", "why it cannot be used; empty if it can"),
        Field("limit_bytes", "integer", "its largest size"),
    )),
)  # fmt: skip


def named(name: str) -> Document:
    """The document of that name."""
    return next(one for one in DOCUMENTS if one.name == name)


def page() -> str:
    """The page of the documentation."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# JSON"
    yield ""
    yield "`--json` prints one object, in ASCII. It begins with `schema`, its name, and `version`, which grows when a"
    yield "field goes or changes its meaning; new fields may come at any time. Names end in their units: `_bytes`,"
    yield "`_seconds`, `_mhz`. What is unknown is null. `run`, `report` and `ptx-support` have no JSON: the output"
    yield "of the first is the program's own, the others write a page. `check --format sarif` prints SARIF."
    for one in DOCUMENTS:
        yield ""
        yield f"## tilewright.{one.name}"
        yield ""
        yield f"`tilewright {one.command} --json`, version {VERSION}. {one.text}"
        yield ""
        yield "| field | type | what it is |"
        yield "|---|---|---|"
        for field in one.fields:
            yield f"| `{field.name}` | {field.types} | {field.text}{_inner(field)} |"


def _inner(field: Field) -> str:
    """The fields of an object, or of each in a list."""
    return f": {', '.join(f'`{name}` ({types})' for name, types in field.of.items())}" if field.of else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
