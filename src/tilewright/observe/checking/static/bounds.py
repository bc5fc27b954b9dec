"""How far a kernel's indices are meant to go, from its PTX: what they are compared with, and what is added to them.

Parameters have the values of a launch, so `i + taps <= n` gives the bound `n - taps`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.observe.checking.static.values import SUMS, Values
from tilewright.simulate.isa import Linear, Role
from tilewright.simulate.observer import ArgumentFact, Launch
from tilewright.simulate.programs.arguments import COUNT, DATA, SHAPE, array_fields
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op


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


#: Special registers that differ between threads.
_INDICES = ("%tid.", "%ctaid.")
#: How to compute a result from its sources; of `mul` the low half, or the whole product.
_ARITHMETIC: dict[Linear | Role, Callable[..., int]] = {
    Linear.MOVE: int, Linear.CVT: int, Linear.ADD: operator.add, Linear.SUB: operator.sub,
    Linear.MUL: operator.mul, Linear.MUL_WIDE: operator.mul,
    Linear.MAD: lambda a, b, c: a * b + c, Linear.MAD_WIDE: lambda a, b, c: a * b + c,
    Linear.SHL: lambda a, b: a << min(b, 64), Linear.SHR: lambda a, b: a >> min(b, 64),
    Role.LEAST: min, Role.GREATEST: max,
}  # fmt: skip
#: Deepest chain of operators that is evaluated; it bounds the time for unusual PTX.
_DEEPEST = 64
#: State spaces that the host fills and no thread changes.
_GIVEN = (".param", ".const")


@dataclass(frozen=True)
class Bounds:
    """The bounds that a kernel's PTX sets for the indices of one launch."""

    launch: Launch
    values: Values

    @functools.cached_property
    def compared(self) -> frozenset[int | None]:
        """The values that the kernel compares its indices with; None for one that is not known before the launch."""
        return self.compared_on("")

    def compared_on(self, axis: str) -> frozenset[int | None]:
        """The bounds of the indices on one axis, or of all if `axis` is ""."""
        found = set()
        for op in self.values.ops:
            if op.form.row.role is Role.COMPARE:
                sides = op.sources[:2]
                indexed = [self._indexed(side, axis) for side in sides]
                for (index, other), mine in zip(((0, 1), (1, 0)), indexed, strict=True):
                    if mine and not indexed[other]:
                        bound = self._number(sides[other])
                        found.add(None if bound is None else bound - self._added(sides[index]))
        return frozenset(found)

    def ends_at(self, reached: int) -> bool:
        """Whether the kernel's own guard ends at an index, written as `i < n` or as `i <= n - 1`."""
        return reached in self.compared or reached - 1 in self.compared

    @functools.cached_property
    def begins_where_given(self) -> bool:
        """Whether the kernel adds a numeric argument to an index: such a kernel is launched for parts of an array."""
        given = {name for name, (fact, field) in self._parameters.items() if fact.dtype is None and field == 0}
        for op in self.values.ops:
            if op.form.row.linear in SUMS:
                *factors, last = op.sources
                for one, others in ((last, factors), (factors[0], [last])):
                    if (
                        isinstance(one, tree.Register)
                        and self._passed(one) in given
                        and any(map(self._indexed, others))
                    ):
                        return True
        return False

    def by_data(self, argument: ArgumentFact) -> bool:
        """Whether every write to an array takes its index from memory: then the data decides how far it goes."""
        address = {
            name for name, each in self._parameters.items() if each[0].address == argument.address and each[1] == DATA
        }
        by_data = [self._loaded(ops) for ops in self._writes() if address & {self._parameter(op) for op in ops}]
        return bool(by_data) and all(by_data)

    @property
    def shares_work(self) -> bool:
        """Whether threads get work from the result of an atomic or from where they run, or only add to results."""
        results = [op for op in self.values.ops if op.form.row.stores and not stays(op)]
        if results and all(op.form.row.access == "atomic" for op in results):
            return True
        read = {name for op in self.values.ops for name in op.reads}
        return any(
            (op.form.row.access == "atomic" and not read.isdisjoint(op.writes))
            or any(name.startswith(("%smid", "%cluster")) for name in self.values.special(op))
            for op in self.values.ops
        )

    def _writes(self) -> Iterator[list[Op]]:
        """The instructions that compute the addresses of stores and atomics, once for each set of registers."""
        stores = (op for op in self.values.ops if op.form.row.stores)
        for registers in dict.fromkeys(tuple(self.values.address_registers(op)) for op in stores):
            yield list(self.values.origins(registers))

    @staticmethod
    def _loaded(ops: list[Op]) -> bool:
        return any(
            op.form.row.access == "atomic"
            or (
                op.form.row.access == "load"
                and not any(part.partition("::")[0] in _GIVEN for part in op.instruction.modifiers)
            )
            for op in ops
        )

    def _indexed(self, side: tree.Operand, axis: str = "") -> bool:
        if not isinstance(side, tree.Register):
            return False
        names = (side.name, *(name for op in self.values.origins([side.name]) for name in self.values.special(op)))
        return any(name.startswith(_INDICES) and name.endswith(axis) for name in names)

    def _writer(self, side: tree.Operand) -> Op | None:
        """The only instruction that computes a register; None if there are several."""
        writers = self.values.writers.get(side.name, []) if isinstance(side, tree.Register) else []
        return writers[0] if len(writers) == 1 and writers[0].guard is None else None

    def _passed(self, side: tree.Operand) -> str:
        """The parameter whose value a register holds unchanged; "" for none."""
        for _ in range(_DEEPEST):
            op = self._writer(side)
            if op is not None and op.form.row.access == "load":
                return self._parameter(op)
            if op is None or op.form.row.role not in (Role.COPY, Role.CONVERT):
                break
            side = op.sources[0]
        return ""

    def _number(self, side: tree.Operand, depth: int = 0) -> int | None:
        """The value of an operand in this launch; None unless it follows from the parameters alone."""
        if isinstance(side, tree.Immediate):
            return side.value if side.kind == "int" else None
        if side not in self._numbers:
            self._numbers[side] = self._computed(self._writer(side) if depth < _DEEPEST else None, depth)
        return self._numbers[side]

    @functools.cached_property
    def _numbers(self) -> dict[tree.Operand, int | None]:
        """Cache of `_number`: a register may be the source of many operands."""
        return {}

    def _computed(self, op: Op | None, depth: int) -> int | None:
        if op is None:
            return None
        if name := self._parameter(op):
            return self._known.get(name)
        compute = _ARITHMETIC.get(op.form.row.linear) or _ARITHMETIC.get(op.form.row.role)
        if compute is None:
            return None
        numbers = [self._number(source, depth + 1) for source in op.sources]
        if any(number is None for number in numbers):
            return None
        result = compute(*numbers)
        return result if abs(result) < 1 << 63 else None

    def _added(self, side: tree.Operand) -> int:
        """The constant that is added to the index in an operand."""
        total = 0
        for _ in range(_DEEPEST):
            op = self._writer(side)
            kind = Linear.NONE if op is None else op.form.row.linear
            if op is None or kind not in (Linear.MOVE, Linear.CVT, Linear.ADD, Linear.SUB):
                break
            first, *others = op.sources
            numbers = [self._number(source) for source in op.sources]
            if not others:
                side = first
            elif numbers[1] is not None:
                side, total = first, total + (numbers[1] if kind is Linear.ADD else -numbers[1])
            elif numbers[0] is not None and kind is Linear.ADD:
                side, total = others[0], total + numbers[0]
            else:
                break
        return total

    @staticmethod
    def _parameter(op: Op) -> str:
        """The parameter that an instruction loads; "" for none."""
        if op.form.row.access != "load" or not op.sources or not isinstance(op.sources[0], tree.Address):
            return ""
        address = op.sources[0]
        return address.base.name if isinstance(address.base, tree.Symbol) and not address.offset else ""

    @functools.cached_property
    def _parameters(self) -> dict[str, tuple[ArgumentFact, int]]:
        """For each parameter of the PTX, its argument and its index among that argument's parameters."""
        return parameters(self.launch)

    @functools.cached_property
    def _known(self) -> dict[str, int]:
        """Values of the parameters that are extents of arrays, or integers."""
        known = {}
        for name, (fact, field) in self._parameters.items():
            if fact.dtype is None:
                number = fact.value
            elif field == COUNT:
                number = math.prod(fact.shape)
            else:
                number = fact.shape[field - SHAPE] if 0 <= field - SHAPE < len(fact.shape) else None
            if number is not None:
                known[name] = number
        return known


def stays(op: Op) -> bool:
    """Whether what an instruction stores does not outlive its block."""
    return not {"shared", "local", "param"}.isdisjoint(
        part.partition("::")[0] for part in op.instruction.name.split(".")
    )
