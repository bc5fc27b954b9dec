"""Litmus tests: small programs of a few threads, with the verdict of PTX's memory consistency model on each.

`litmus.toml` has the rows. A row states what each thread does, in PTX without state space, type and brackets:

- `st.release.gpu f 1`, `ld.acquire.gpu r0 f`, `atom.relaxed.gpu.add r0 x 1`, `red.release.gpu.add f 1`;
- `await.acquire.gpu f 1` repeats `ld.acquire.gpu` until `f` is 1, and `await.acquire.gpu.add` an atomic that adds 0;
- `if r0` goes on only if `r0` is 1;
- `meet bar.sync 0` is an instruction that all threads of the launch reach together;
- other steps are instructions as they are.

`S` is the row's scope. `x`, `y`, `z` and `f` are words that begin as 0, and `r0` to `r7` registers whose values are
kept. A test is a row at a place (two lanes of one warp, two warps of one block, two blocks of one cluster, or any two
blocks of the grid) with a scope. A scope reaches a place if it includes both threads there.

The reasons use the model's words. Two strong operations are *morally strong* if the scope of each includes the other's
thread and they access the same bytes. Conflicting accesses *race* if they are not morally strong and no *causality
order* relates them. A release pattern *synchronises* with an acquire pattern that observes it. Source: PTX ISA, 8.6
(morally strong operations) to 8.10 (axioms).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.programs import Program

#: Where threads run; a scope reaches the places up to its own.
PLACES = ("warp", "block", "cluster", "grid")
_REACHES = {"cta": 2, "cluster": 3, "gpu": 4, "sys": 4}
#: Where each word lies, in bytes from the first.
_WORDS = {"x": 0, "y": 64, "z": 128, "f": 192}
_REGISTERS = 8
#: What a register holds whose load was left out.
UNSET = 0xFFFFFFFF


@dataclass(frozen=True)
class Row:
    """One program.

    Attributes
    ----------
    name : str
    threads : tuple of str
        The steps of each thread, separated by semicolons.
    why : str
        The argument for the verdict.
    racy : {"never", "always", "beyond"}
        "beyond": it races where the scope does not reach the place.
    at : str
        Words `place.scope`, each a test; or the name of such words.
    forbidden : str
        Outcomes that the model forbids where the scope reaches the place: values of registers and of words in the end,
        joined by `and`; alternatives by `or`.
    space : {"global", "shared"}
    missed : str
        Why `check` is silent, though the program races.
    mistaken : str
        Why `check` has a finding, though the program does not race.
    """

    name: str
    threads: tuple[str, ...]
    why: str
    racy: str = "never"
    at: str = "grid.gpu"
    forbidden: str = ""
    space: str = "global"
    missed: str = ""
    mistaken: str = ""


@dataclass(frozen=True)
class Litmus:
    """A row at one place, with one scope."""

    row: Row
    place: str
    scope: str

    @property
    def name(self) -> str:
        """The name of its kernel."""
        return f"{self.row.name}_{self.place}_{self.scope}"

    @property
    def in_scope(self) -> bool:
        """Whether the scope reaches the place."""
        return PLACES.index(self.place) < _REACHES[self.scope]

    @property
    def racy(self) -> bool:
        """Whether the model says that it races."""
        return self.row.racy == "always" or (self.row.racy == "beyond" and not self.in_scope)

    @property
    def launch(self) -> tuple[int, int]:
        """Blocks and threads."""
        count = len(self.row.threads)
        return {"warp": (1, 32), "block": (1, 32 * count)}.get(self.place, (count, 1))

    def shown(self, values: Mapping[str, int]) -> bool:
        """Whether an outcome is one that the model forbids."""
        if not (self.row.forbidden and self.in_scope):
            return False
        return any(
            all(values[name] == int(due) for name, due in re.findall(r"(\w+)=(\d+)", one))
            for one in self.row.forbidden.split(" or ")
        )


def _access(text: str, space: str, base: str) -> Iterator[str]:
    """The PTX of a step that accesses a word."""
    name, *operands = text.split()
    parts = name.split(".")
    operation = [parts.pop()] if parts[0] in ("atom", "red") else []
    kind = ".".join([*parts, space, *operation, "b32" if operation == ["exch"] else "u32"])
    where = next(f"[%{base}+{_WORDS[one]}]" for one in operands if one in _WORDS)
    rest = [f"%{one}" if one[0] == "r" else one for one in operands if one not in _WORDS]
    order = [*rest[:1], where, *rest[1:]] if parts[0] in ("ld", "atom") else [where, *rest]
    yield f"{kind} {', '.join(order)};"


def _await(text: str, space: str, base: str, label: str) -> Iterator[str]:
    name, word, value = text.split()
    parts = name.split(".")[1:]
    yield f"{label}:"
    if parts[-1] == "add":
        yield from _access(f"atom.{'.'.join(parts)} r8 {word} 0", space, base)
    else:
        yield from _access(f"ld.{'.'.join(parts)} r8 {word}", space, base)
    yield f"setp.ne.u32 %q, %r8, {value};"
    yield f"@%q bra {label};"


def _steps(steps: list[str], test: Litmus, number: int) -> Iterator[str]:
    """What one thread does between meetings."""
    base = "words" if test.row.space == "shared" else "memory"
    for place, step in enumerate(steps):
        if step.startswith(("st.", "ld.", "atom.", "red.")) and "[" not in step:
            yield from _access(step, test.row.space, base)
        elif step.startswith("await."):
            yield from _await(step, test.row.space, base, f"AGAIN{number}_{place}")
        elif step.startswith("if "):
            yield f"setp.ne.u32 %q, %{step[3:]}, 1;"
            yield f"@%q bra KEEP{number};"
        else:
            yield f"{step};"


def _kept(phases: list[list[str]], number: int) -> Iterator[str]:
    """Store the registers that a thread has loaded."""
    yield f"KEEP{number}:"
    steps = "; ".join(step for steps in phases for step in steps)
    for register in sorted(set(re.findall(r"\b(?:ld|atom)\S+ %?r(\d)", steps))):
        yield f"st.global.u32 [%out+{4 * int(register)}], %r{register};"


def _roles(test: Litmus) -> Iterator[str]:
    """Which thread of the launch is which of the row's, in %role; and the words of shared memory are cleared."""
    yield "mov.u32 %role, %ctaid.x;" if test.launch[0] > 1 else "mov.u32 %role, %tid.x;"
    if test.row.space == "shared":
        cleared = " ".join(f"@%q st.shared.u32 [%words+{at}], 0;" for at in range(0, 256, 4))
        yield f"mov.u32 %words, tile; setp.eq.u32 %q, %role, 0; {cleared} bar.sync 0;"
    if test.place == "block":
        yield "and.b32 %lane, %role, 31; shr.u32 %role, %role, 5; setp.eq.u32 %q, %lane, 0;"
        yield f"selp.u32 %role, %role, {UNSET}, %q;"


def _phases(text: str, scope: str) -> list[list[str]]:
    """The steps of a thread between meetings."""
    phases: list[list[str]] = [[]]
    for step in (one.strip().replace("S", scope) for one in text.split(";")):
        if step.startswith("meet "):
            phases.append([])
        else:
            phases[-1].append(step)
    return phases


def kernel(test: Litmus) -> str:
    """A test as a kernel of two pointers: what registers held, and the words."""
    threads = [_phases(text, test.scope) for text in test.row.threads]
    meetings = [*re.findall(r"meet ([^;]+)", test.row.threads[0]), ""]
    lines = ["ld.param.u64 %out, [out]; ld.param.u64 %memory, [memory];", *_roles(test)]
    lines += [f"mov.u32 %r{number}, {UNSET};" for number in range(_REGISTERS)]
    for phase, meeting in enumerate(meetings):
        for number in range(len(threads)):
            lines += [f"setp.eq.u32 %q, %role, {number}; @%q bra PHASE{phase}_{number};"]
        lines += [f"bra.uni MEET{phase};"]
        for number, phases in enumerate(threads):
            lines += [f"PHASE{phase}_{number}:", *_steps(phases[phase], test, number)]
            lines += [] if meeting else _kept(phases, number)
            lines += [f"bra MEET{phase};"]
        lines += [f"MEET{phase}:", f"{meeting or 'ret'};"]
    cluster = f".reqnctapercluster {len(threads)}, 1, 1 " if test.place == "cluster" else ""
    declared = ".reg .pred %q; .reg .b32 %r<9>, %role, %lane, %words; .reg .b64 %out, %memory, %wide;"
    shared = " .shared .align 64 .b8 tile[256];" if test.row.space == "shared" else ""
    text = "\n".join(lines)
    return (
        f".visible .entry {test.name}(.param .u64 out, .param .u64 memory) {cluster}{{\n{declared}{shared}\n{text}\n}}"
    )


def module(tests: list[Litmus]) -> str:
    """All tests as one module."""
    return "\n".join([".version 8.6", ".target sm_90", ".address_size 64", *map(kernel, tests)])


def codes(program: Program, test: Litmus, seed: int | None = None) -> tuple[set[str], dict[str, int]]:
    """The codes of what `check` finds, and the outcome."""
    given = np.zeros(_REGISTERS, np.uint32), np.zeros(64, np.uint32)
    found = tw.check(program, *test.launch, given, gpu="h100", seed=seed)
    return {one.code for one in found}, _outcome(given)


def outcome(program: Program, test: Litmus, seed: int) -> dict[str, int]:
    """What registers and words hold after a launch."""
    given = np.zeros(_REGISTERS, np.uint32), np.zeros(64, np.uint32)
    tw.simt.launch(program, *test.launch, given, gpu="h100", seed=seed)
    return _outcome(given)


def _outcome(given: tuple[np.ndarray, np.ndarray]) -> dict[str, int]:
    registers = {f"r{number}": int(value) for number, value in enumerate(given[0])}
    return registers | {name: int(given[1][at // 4]) for name, at in _WORDS.items()}


def rows() -> list[Row]:
    """The table."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    made = [Row(name, **{**row, "threads": tuple(row["threads"])}) for name, row in table["rows"].items()]
    return [replace(row, at=table["places"].get(row.at, row.at)) for row in made]


def placed(row: Row) -> list[Litmus]:
    """A row at every place with the scope that it names."""
    return [Litmus(row, *one.split(".")) for one in row.at.split()]
