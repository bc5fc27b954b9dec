"""Maps the parameters of a kernel's PTX to the arguments of a launch."""

from __future__ import annotations

from tilewright.simulate.observer import ArgumentFact, Launch
from tilewright.simulate.programs.arguments import DATA, array_fields


def parameters(launch: Launch) -> dict[str, tuple[ArgumentFact, int]]:
    """For each parameter, its argument and its index among that argument's parameters; empty if they do not match.

    An array of numba-cuda is several parameters. An array in C is one pointer; its index is `DATA` too.
    """
    facts, names = launch.arguments, [parameter.name for parameter in launch.program.parameters]
    if len(names) == len(facts):
        return {name: (fact, 0 if fact.dtype is None else DATA) for name, fact in zip(names, facts, strict=True)}
    counts = [1 if fact.dtype is None else array_fields(len(fact.shape)) for fact in facts]
    if sum(counts) != len(names):
        return {}
    places = [(fact, at) for fact, count in zip(facts, counts, strict=True) for at in range(count)]
    return dict(zip(names, places, strict=True))
