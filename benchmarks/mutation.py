"""Wild kernels cannot hurt the process: thousands of mutated PTX programs, launched one after another.

Each program is one of the kernels in `mutation_kernels`, with operands, opcodes, types, branch targets, addresses,
immediates, guards and whole lines changed at random, by seed. For each: it ran or gave a TilewrightError, it ended
within its limit, and no byte of the host's memory around its arguments changed.

    python benchmarks/mutation.py [--count 10000] [--first 0] [--show SEED]
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.errors import LimitError, TilewrightError
from tilewright.simt.ptx import parse, to_text
from tilewright.simt.ptx.tree import (
    Address,
    CallArguments,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Symbol,
    Vector,
)

KERNELS = Path(__file__).parent / "mutation_kernels"
LIMIT_SECONDS = 0.5
SLACK_SECONDS = 5.0  # for a busy host, and for what a limit does not count: translation
HANG_SECONDS = 60  # then the process is ended from inside, with every thread's position
BROKEN = 3  # exit status after broken promises; any other but 0 means that the process died
#: What immediates become: edges of every width, small numbers, and sizes of the arrays' own order.
EDGES = (
    0,
    1,
    -1,
    2,
    4,
    31,
    32,
    33,
    64,
    255,
    4096,
    0x7FFF,
    0xFFFF,
    1 << 20,
    0x7FFFFFFF,
    -(1 << 31),
    1 << 40,
    1 << 62,
    -(1 << 63),
)

Draw = random.Random


@dataclass(frozen=True)
class Outcome:
    """What became of one program; `problem` is empty unless a promise was broken."""

    kernel: str
    name: str
    seconds: float
    problem: str = ""


# -- mutations ----------------------------------------------------------------------------------------------------


class Stock:
    """The kernels by name, and all their instructions."""

    def __init__(self) -> None:
        self.texts = {path.stem: path.read_text() for path in sorted(KERNELS.glob("*.ptx"))}
        self.instructions = [item for text in self.texts.values() for item in instructions(parse(text))]


def mutated(stock: Stock, seed: int) -> tuple[str, str]:
    """A kernel's name and its text, changed in one to six places (one time in eight by characters, not by meaning)."""
    draw = random.Random(seed)
    name = draw.choice(list(stock.texts))
    text = stock.texts[name]
    if draw.random() < 0.125:
        return name, damaged(text, draw)
    module = parse(text)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        bodies = [function for function in module.functions.values() if len(function.body) > 1]
        change(draw.choice(bodies), module, stock.instructions, draw)
    return name, to_text(module)


def damaged(text: str, draw: Draw) -> str:
    """Lines deleted, doubled or exchanged, and characters overwritten."""
    lines = text.splitlines()
    for _ in range(draw.choice((1, 2, 4))):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                column = draw.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + draw.choice("0159-+;,.[]{}%@!rpfdx_ ") + lines[at][column + 1 :]
    return "\n".join(lines) + "\n"


def instructions(module: Module) -> list[Instruction]:
    """All instructions of a module."""
    return [item for f in module.functions.values() for item in f.body if isinstance(item, Instruction)]


def change(function: Function, module: Module, foreign: list[Instruction], draw: Draw) -> None:
    """Change one thing of a function."""
    body = function.body
    at = draw.choice([i for i, item in enumerate(body) if isinstance(item, Instruction)] or [0])
    item = body[at]
    if not isinstance(item, Instruction):
        return
    kind = draw.randrange(12)
    if kind == 0 and len(body) > 4:
        del body[at]
    elif kind == 1:
        body.insert(draw.randrange(len(body) + 1), item)
    elif kind == 2:
        other = draw.randrange(len(body))
        body[at], body[other] = body[other], body[at]
    elif kind == 3:
        body.insert(at, adopted(draw.choice(foreign), function, draw))
    elif kind == 4:
        body[at] = replace(item, guard=guard(item, function, draw))
    elif kind == 5:
        body[at] = renamed(item, foreign, draw)
    elif kind == 6 and function.registers:
        register = draw.choice(list(function.registers))
        function.registers[register] = draw.choice((".pred", ".b16", ".b32", ".b64", ".f32", ".f64", ".b8", ".u64"))
    elif kind == 7 and (module.variables or function.variables):
        resize(module, function, draw)
    else:
        body[at] = replace(item, operands=operands(item.operands, function, module, draw))


def guard(item: Instruction, function: Function, draw: Draw) -> Guard | None:
    """The guard removed, turned round, or another."""
    predicates = [name for name, type_ in function.registers.items() if type_ == ".pred"]
    if item.guard is not None and draw.random() < 0.6:
        return None if draw.random() < 0.5 else replace(item.guard, negated=not item.guard.negated)
    return Guard(Register(draw.choice(predicates)), draw.random() < 0.5) if predicates else item.guard


def renamed(item: Instruction, foreign: list[Instruction], draw: Draw) -> Instruction:
    """Another opcode with as many operands, or other modifiers."""
    alike = [other for other in foreign if len(other.operands) == len(item.operands)]
    other = draw.choice(alike or foreign)
    if draw.random() < 0.5 or not item.modifiers:
        return replace(item, opcode=other.opcode, modifiers=other.modifiers)
    place = draw.randrange(len(item.modifiers))
    choices = [m for o in foreign for m in o.modifiers]
    changed = (*item.modifiers[:place], draw.choice(choices), *item.modifiers[place + 1 :])
    return replace(item, modifiers=changed)


def adopted(item: Instruction, function: Function, draw: Draw) -> Instruction:
    """An instruction of another kernel with this function's registers."""
    registers = list(function.registers) or ["%r1"]

    def own(operand: Operand) -> Operand:
        match operand:
            case Register(name) if "." not in name:
                return Register(draw.choice(registers))
            case Address(base, offset):
                return Address(own(base) if isinstance(base, Register) else Register(draw.choice(registers)), offset)  # type: ignore[arg-type]
            case Vector(items):
                return Vector(tuple(own(i) for i in items))
        return operand

    return replace(item, guard=None, operands=tuple(own(o) for o in item.operands))


def operands(old: tuple[Operand, ...], function: Function, module: Module, draw: Draw) -> tuple[Operand, ...]:
    """One operand changed, two exchanged, one dropped or one doubled."""
    if not old:
        return old
    new, at = list(old), draw.randrange(len(old))
    how = draw.random()
    if how < 0.1:
        other = draw.randrange(len(old))
        new[at], new[other] = new[other], new[at]
    elif how < 0.15:
        del new[at]
    elif how < 0.2:
        new.insert(at, new[at])
    else:
        new[at] = operand(new[at], function, module, draw)
    return tuple(new)


def operand(old: Operand, function: Function, module: Module, draw: Draw) -> Operand:
    """Another operand, of the same kind more often than not."""
    labels = [item.name for item in function.body if isinstance(item, Label)]
    names = [*module.variables, *module.functions, *(v.name for v in function.variables), *labels]
    registers = list(function.registers) or ["%r1"]
    new: Operand = draw.choice(
        (Register(draw.choice(registers)), Immediate(draw.choice(EDGES)), Symbol(draw.choice(names)))
    )
    if draw.random() < 0.1:
        return new
    match old:
        case Register(name):
            same = [r for r in registers if function.registers.get(r) == function.registers.get(name)]
            new = Register(draw.choice(same if same and draw.random() < 0.7 else registers))
        case Immediate():
            new = Immediate(draw.choice(EDGES) + draw.choice((0, 0, 1, -1)))
        case Symbol(name):
            new = Symbol(draw.choice(labels if name in labels and draw.random() < 0.9 else names), 0)
        case Address(base, offset) if draw.random() < 0.6:
            new = Address(base, draw.choice((offset + draw.choice(EDGES), draw.choice(EDGES))))
        case Address(_, offset):
            register = Register(draw.choice(registers))
            new = Address(register if draw.random() < 0.7 else Symbol(draw.choice(names)), offset)
        case Vector(items):
            at = draw.randrange(len(items))
            new = Vector((*items[:at], operand(items[at], function, module, draw), *items[at + 1 :]))
        case CallArguments():
            register = Register(draw.choice(registers))
            new = replace(old, target=register if draw.random() < 0.5 else Symbol(draw.choice(names)))
    return new


def resize(module: Module, function: Function, draw: Draw) -> None:
    """Another size, type or alignment of a variable."""
    chosen = draw.choice([*module.variables.values(), *function.variables])
    changes: tuple[Callable[[], dict[str, object]], ...] = (
        lambda: {"count": draw.choice((0, 1, 3, 64, 100_000, 1 << 39))},
        lambda: {"type": draw.choice((".b8", ".u16", ".f32", ".b64", ".pred"))},
        lambda: {"align": draw.choice((1, 2, 16, 4096))},
    )
    new = replace(chosen, initial=(), **draw.choice(changes)())  # type: ignore[arg-type]
    if chosen.name in module.variables and chosen not in function.variables:
        module.variables[chosen.name] = new
    else:
        function.variables[function.variables.index(chosen)] = new


# -- running ------------------------------------------------------------------------------------------------------


class Arena:
    """A host buffer; the kernel's arguments are slices of its inside, and every other byte must keep its value."""

    ELEMENTS, MARGIN = 256, 512

    def __init__(self) -> None:
        step = self.ELEMENTS * 4 + self.MARGIN
        self._pattern = np.random.default_rng(7).integers(0, 256, 2 * step + self.MARGIN, dtype=np.uint8)
        self._buffer = self._pattern.copy()
        self._inside = [slice(self.MARGIN + i * step, self.MARGIN + i * step + self.ELEMENTS * 4) for i in range(2)]

    def arguments(self) -> tuple[np.ndarray, np.ndarray]:
        """The input and output arrays, with fresh contents."""
        source, target = (self._buffer[part].view(np.uint32) for part in self._inside)
        source[:] = np.arange(self.ELEMENTS, dtype=np.float32).view(np.uint32) ^ np.arange(
            self.ELEMENTS, dtype=np.uint32
        )
        target[:] = 0
        return source, target

    def changed(self) -> int:
        """How many bytes outside the arguments changed; puts them back."""
        difference = self._buffer != self._pattern
        for part in self._inside:
            difference[part] = False
        count = int(np.count_nonzero(difference))
        self._buffer[difference] = self._pattern[difference]
        return count


def run(stock: Stock, arena: Arena, seed: int) -> Outcome:
    """Mutate, launch, and judge one program."""
    kernel, text = mutated(stock, seed)
    source, target = arena.arguments()
    limits = tw.simt.Limits(seconds=LIMIT_SECONDS, instructions=20_000_000)
    problem, name = "", "ran"
    start = time.perf_counter()
    try:
        program = tw.gpu.Program.from_ptx(text)
        arguments = [source, target, 64][: len(program.parameters)]
        tw.simt.launch(program, 2, 64, arguments, shared_bytes=64, limits=limits, seed=seed)
    except TilewrightError as error:
        name = type(error).__name__
        problem = "" if str(error) else "an error without a message"
    except Exception as error:  # the promise is that there is no other
        name = problem = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    if seconds > LIMIT_SECONDS + SLACK_SECONDS:
        problem = problem or f"took {seconds:.1f} s"
    if changed := arena.changed():
        problem = f"{changed} host bytes outside the arguments changed"
    return Outcome(kernel, name, seconds, problem)


def run_all(first: int, count: int, state: Path) -> int:
    """Run a range of seeds in this process; the number of broken promises."""
    faulthandler.enable()
    stock, arena = Stock(), Arena()
    outcomes: list[Outcome] = []
    start = time.perf_counter()
    for seed in range(first, first + count):
        state.write_text(str(seed))
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        outcome = run(stock, arena, seed)
        faulthandler.cancel_dump_traceback_later()
        outcomes.append(outcome)
        if outcome.problem:
            print(f"seed {seed} ({outcome.kernel}): {outcome.problem}", flush=True)
        done = seed - first + 1
        if sys.stdout.isatty() or done % 500 == 0:
            rate = done / (time.perf_counter() - start)
            print(f"{done} of {count}, {rate:.1f} a second", end="\r" if sys.stdout.isatty() else "\n", flush=True)
    report(outcomes)
    return sum(bool(outcome.problem) for outcome in outcomes)


def report(outcomes: list[Outcome]) -> None:
    """The closing table: outcomes by kernel, the slowest program and the memory."""
    kernels = sorted({outcome.kernel for outcome in outcomes})
    counts = Counter((outcome.name, outcome.kernel) for outcome in outcomes)
    totals = Counter(outcome.name for outcome in outcomes)
    print(f"\n{'outcome':<24}" + "".join(f"{kernel:>14}" for kernel in kernels) + f"{'all':>9}")
    for name, total in totals.most_common():
        print(f"{name[:23]:<24}" + "".join(f"{counts[name, kernel]:>14}" for kernel in kernels) + f"{total:>9}")
    limited = max((o.seconds for o in outcomes if o.name == LimitError.__name__), default=0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(outcomes)} programs, {sum(bool(o.problem) for o in outcomes)} broken promises;"
        f" slowest {max(o.seconds for o in outcomes):.2f} s, slowest stopped by its limit {limited:.2f} s;"
        f" peak memory {peak:.0f} MB"
    )


def main() -> int:
    """Run in a process of its own, so that even its death is reported with the seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, metavar="SEED", help="print one mutated program and stop")
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show is not None:
        print(mutated(Stock(), options.show)[1])
        return 0
    if options.state is not None:
        return BROKEN if run_all(options.first, options.count, options.state) else 0
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "seed"
        command = [
            sys.executable,
            __file__,
            "--first",
            str(options.first),
            "--count",
            str(options.count),
            "--state",
            str(state),
        ]
        own_cache = {**os.environ, "TILEWRIGHT_CACHE_DIR": folder}  # thousands of programs nobody runs again
        status = subprocess.run(command, check=False, env=own_cache).returncode
        if status not in (0, BROKEN):
            print(f"the process died (status {status}) at seed {state.read_text()}")
    return status


if __name__ == "__main__":
    sys.exit(main())
