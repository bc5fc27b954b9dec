"""Judges what students hand in: `python judge.py FOLDER ...`, a folder each, or `python judge.py one_rows.py ...`.

An exercise is done if the results are right on every shape, by `==`, nothing is found, and its count stays within the
bound. The verdict is the same on every host. The exit status is 0 if every exercise of every folder is done.

Hand-ins are programs and run as you: judge in a container or an account that may lose its files.
"""

import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.profiling import Profile
from tilewright.simt import Limits


@dataclass(frozen=True)
class Exercise:
    """What an exercise asks for: shapes (m, n, k), and a count of the first shape with its bound."""

    shapes: tuple[tuple[int, int, int], ...]
    counted: str = ""
    count: Callable[[Profile], int] = lambda seen: 0
    bound: int = 0


EXERCISES = {
    "one_rows": Exercise(
        ((64, 64, 64), (33, 20, 45)), "sectors loaded", lambda seen: seen.totals.global_loads.sectors, 45_000
    ),
    "two_edges": Exercise(((33, 20, 45), (16, 48, 7), (1, 1, 1))),
    "three_tiles": Exercise(
        ((64, 64, 64), (33, 20, 45), (1, 1, 1)),
        "sectors loaded",
        lambda seen: seen.totals.global_loads.sectors,
        5_000,
    ),
    "four_race": Exercise(
        ((4, 6, 300), (2, 3, 64), (1, 1, 1)), "arrivals at barriers", lambda seen: seen.totals.barriers, 4 * 8 * 24
    ),
    "five_results": Exercise(
        ((64, 64, 64), (33, 20, 45), (1, 1, 1)),
        "wavefronts of shared memory loaded",
        lambda seen: seen.totals.shared_loads.wavefronts,
        11_000,
    ),
}
#: An endless kernel ends here: the solutions run 100,000 warp instructions at most.
LIMITS = Limits(instructions=20_000_000)


def judged(path: Path) -> tuple[bool, str]:
    """(whether the exercise is done, what the student should read)."""
    exercise = EXERCISES[path.stem]
    try:
        given = runpy.run_path(str(path))
        for m, n, k in exercise.shapes:
            if fault := wrong(given, m, n, k):
                return False, f"{m} x {n} x {k}: {fault}"
        count = counted(given, exercise)
    except (Exception, SystemExit) as error:
        return False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    within = count <= exercise.bound
    if not exercise.counted:
        return True, "right, no findings"
    return within, f"{count:,} {exercise.counted}, {'within' if within else 'above'} {exercise.bound:,}"


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A and B of small whole numbers, whose sums are exact in any order; and C, filled with NaN."""
    random = np.random.default_rng(m * n + k)
    a, b = (random.integers(-9, 10, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), np.nan, np.float32)


def wrong(given: dict[str, object], m: int, n: int, k: int) -> str:
    """What is wrong with a product of that shape; "" for nothing."""
    a, b, c = operands(m, n, k)
    right = a @ b
    found = tw.check(given["product"], given["grid"](m, n), given["BLOCK"], (a, b, c), limits=LIMITS)
    if found:
        first = found[0]
        return f"{first.code} in line {first.line}; its page says what it means"
    return "" if (c == right).all() else f"{(c != right).sum():,} of {c.size:,} elements are wrong"


def counted(given: dict[str, object], exercise: Exercise) -> int:
    """The exercise's count, of its first shape."""
    m, n, k = exercise.shapes[0]
    seen = tw.profile(given["product"], given["grid"](m, n), given["BLOCK"], operands(m, n, k), limits=LIMITS)
    return exercise.count(seen)


def main(handed_in: list[Path]) -> int:
    """Print a line for each exercise of each hand-in, and return the exit status."""
    missed = 0
    for place in handed_in:
        for path in [place / f"{name}.py" for name in EXERCISES] if place.is_dir() else [place]:
            done, words = judged(path) if path.exists() else (False, "not handed in")
            print(f"{'done' if done else 'open':5} {path.parent.name}/{path.name:16} {words}")
            missed += not done
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or [Path.cwd()]))
