"""Results of commands, as values of JSON documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from tilewright.frontends.script import Ended
from tilewright.ground.native.eviction import Contents
from tilewright.multiply.backends.protocol import Device
from tilewright.multiply.kernels.catalogue import Record
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling import Profile
from tilewright.observe.profiling.counts import Summable
from tilewright.show.ladder.rung import Climb, Rung
from tilewright.show.ladder.story import Story
from tilewright.show.report import program


def climb(found: Climb, story: Story | None = None) -> dict[str, Any]:
    """Return the machine, the problem and the rungs; counts and footprint are fields of a rung.

    A quantity that was not counted is null, never 0. With the story of the first screen also its steps and the time of
    this host; without it there are none.
    """
    host = story.host if story else None
    return {
        "machine": asdict(found.machine),
        "problem": {**asdict(found.problem), "operations": found.problem.operations},
        "rungs": [_rung_document(rung) for rung in found.rungs],
        "steps": [asdict(step) for step in story.steps] if story else [],
        "host": None if host is None else {**asdict(host), "gflops": host.gflops},
        "interrupted": story.interrupted if story else found.interrupted,
    }


def profiles(
    found: Sequence[Profile],
    failed: Sequence[tuple[str, str]],
    ended: Ended,
    judge: Callable[[Profile], tuple[Profile, Prediction | None]] = lambda profile: (profile, None),
) -> dict[str, Any]:
    """Return {"profiles": [...], "kernels": [...], "failed": [...], "program": {...}}.

    One profile for each launch, with the means and shares that follow from its counts. Groups that are all zero are
    left out; unknown values are null, such as the time without a prediction. Then kernel and error of each launch
    without a profile, and how the program ended.
    """
    judged = list(map(judge, found))
    return {
        "profiles": [{**as_values(profile), "predicted": _time(time)} for profile, time in judged],
        "kernels": [
            {
                "kernel": name,
                "launches": [found[at].launch for at in rows],
                "least_seconds": sum(judged[at][0].least_seconds for at in rows),
                "predicted_seconds": _sum([judged[at][1] for at in rows]),
            }
            for name, rows in together(found).items()
        ],
        "failed": [{"kernel": kernel, "error": error} for kernel, error in failed],
        "program": program.document(ended),
    }


def together(found: Sequence[Any]) -> dict[str, list[int]]:
    """The positions of each kernel's launches.

    >>> from types import SimpleNamespace as Launch
    >>> together([Launch(kernel="a"), Launch(kernel="b"), Launch(kernel="a")])
    {'a': [0, 2], 'b': [1]}
    """
    rows: dict[str, list[int]] = {}
    for at, one in enumerate(found):
        rows.setdefault(one.kernel, []).append(at)
    return rows


def _sum(times: Sequence[Prediction | None]) -> float | None:
    known = [one.seconds for one in times if one is not None]
    return sum(known) if len(known) == len(times) else None


def _time(found: Prediction | None) -> dict[str, Any] | None:
    """A predicted, not measured, time with its band."""
    if found is None:
        return None
    names = ("seconds", "least_seconds", "most_seconds", "clock_mhz", "limiter")
    return {"kind": "predicted", **{name: getattr(found, name) for name in names}}


def as_values(value: Any) -> Any:
    """A record as JSON values: fields, then properties that are numbers or names."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        items = ((field.name, getattr(value, field.name)) for field in fields(value))
        known = {name: as_values(item) for name, item in items if not isinstance(item, Summable) or item}
        computed = (name for name in dir(kind) if isinstance(getattr(kind, name), property))
        plain = {name: getattr(value, name) for name in computed}
        return known | {name: x for name, x in plain.items() if isinstance(x, int | float | str)}
    if isinstance(value, Mapping):
        return {str(key): as_values(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_values(item) for item in value]
    return value


def cache(contents: Contents, limit_bytes: int) -> dict[str, Any]:
    """Return the size and the limit of the cache."""
    return {**asdict(contents), "limit_bytes": limit_bytes}


def kernels(records: Sequence[Record]) -> dict[str, Any]:
    """Return {"kernels": [...]}: what each is, and what it takes."""
    names = ("name", "title", "source", "backend", "dtypes", "takes", "order", "published", "limits", "notes")
    return {"kernels": [{name: as_values(getattr(record, name)) for name in names} for record in records]}


def devices(found: Sequence[Device]) -> dict[str, Any]:
    """Return {"devices": [...]}, each with its features or why it is missing."""
    return {"devices": [asdict(device) for device in found]}


def _rung_document(rung: Rung) -> dict[str, Any]:
    document = asdict(rung)
    counts, footprint, predicted = (document.pop(name) for name in ("counts", "footprint", "predicted"))
    return {**document, **counts, **footprint, **predicted}
