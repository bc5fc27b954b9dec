"""Random flow of control: branches, loops, jumps, calls, and regions of converged lanes."""

from __future__ import annotations

from kernel_tree import Call, Collective, Constant, Function, Group, If, Jump, Loop, Op, Operand, Statement
from meanings import CLASSES, bits_of
from operands import Scope
from statements import KINDS, Statements


class Flow(Statements):
    """Statements that hold statements."""

    left: int  #: statements that are still to be made
    functions: list[Function]

    def statements(self, scope: Scope, count: int) -> list[Statement]:
        made = []
        for _ in range(count):
            if self.left > 0:
                self.left -= 1
                made.append(self.statement(scope))
        return made

    def statement(self, scope: Scope) -> Statement:
        ways = {self.plain: 46, self.access: 20, self.chain: 2, self.choice: 7}
        if scope.depth < 4:
            ways |= {self.fork: 8}
            if scope.trips <= 8:
                ways |= {self.loop: 9}
        if scope.mask is not None:
            ways |= {self.collective: 6, self.region: 3 if scope.depth < 3 else 0}
        if scope.blockwide and scope.trips <= 8:
            ways |= {self.exchange: 4}
        if scope.jumps:
            ways |= {self.jump: 7}
        if scope.leaves:
            ways |= {self.leave: 5}
        if self.functions and not scope.in_function:
            ways |= {self.call: 4}
        if not scope.in_function:
            ways |= {self.reduce: 2}
        return self.rng.choices(list(ways), list(ways.values()))[0](scope)

    def region(self, scope: Scope) -> Statement:
        """A divergent branch whose arms know their lanes."""
        if len(self.free(scope, "r")) < 7:
            return self.plain(scope)
        here, other = self.target(scope, "r", 2)
        q = self.rng.choice(scope.pools["p"])
        assert scope.mask is not None
        inner = scope.inside(mask=here, blockwide=False).protecting(here, other)
        outer = scope.inside(mask=other, blockwide=False).protecting(here, other)
        return Group([
            Collective("vote.sync.ballot.b32", [here], [q], scope.mask),
            Op("xor.b32", [other], [here, scope.mask]),
            If(q, self.statements(inner, self.rng.randrange(1, 5)), self.statements(outer, self.rng.choice([0, 1, 3]))),
        ])  # fmt: skip

    def predicate(self, scope: Scope, *, uniform: bool) -> Op:
        """A comparison; a uniform one of what all threads of a block share."""
        if uniform:
            name = self.rng.choice(["setp.lt.s32", "setp.eq.u32", "setp.ge.u32", "setp.ne.s32"])
            shared = ["%n0", "%n1", "%n2", "%bx", "%nx"]
            return Op(name, self.target(scope, "p"), [self.rng.choice(shared), self.constant("s32")])
        if scope.fixed and self.chance(0.5):
            name = self.rng.choice(["setp.lt.u32", "setp.ge.s32", "setp.ne.u32", "setp.gt.s32"])
            return Op(
                name, self.target(scope, "p"), [self.rng.choice(list(scope.fixed)), Constant(self.rng.randrange(40))]
            )
        return self.op(scope, self.rng.choice(KINDS["setp"]), 0)

    def fork(self, scope: Scope) -> Statement:
        uniform = bool(scope.fixed) and self.chance(0.3)
        inner = scope.inside() if uniform else scope.inside(mask=None, blockwide=False)
        then = self.statements(inner, self.rng.randrange(1, 6))
        otherwise = self.statements(inner, self.rng.choice([0, 0, 1, 2, 4]))
        test = self.predicate(scope, uniform=uniform)
        guard = self.rng.choice(["", "!"]) + test.results[0]
        if not uniform and self.chance(0.3):
            return If(self.guard(scope, 1), then, otherwise)
        return Group([test, If(guard, then, otherwise)])

    def jump(self, scope: Scope) -> Statement:
        return Jump(self.rng.choice(["break", "break", "continue"]), self.guard(scope, 1))

    def leave(self, scope: Scope) -> Statement:
        return Jump("leave", self.guard(scope, 1))

    def loop(self, scope: Scope) -> Statement:
        kind = self.rng.choice(["s32", "s32", "s32", "u32", "s64", "u64"])
        if len(self.free(scope, CLASSES[kind])) < 6 or len(self.free(scope, "r")) < 7:
            return self.plain(scope)
        counter, limit = self.target(scope, CLASSES[kind], 2)
        form = self.rng.choice(["top", "bottom", "rotated", "post"])
        step = self.rng.choice([1, 1, 1, 2, 3]) if kind[0] == "s" else 1
        trips = self.rng.randrange(1, 6 if scope.trips > 1 else 9)
        by_lane = self.chance(0.45)
        begin = self.rng.choice([0, 0, 0, 1, 3, 8])
        down = self.chance(0.25) and form != "bottom"
        if not down and self.chance(0.15):
            begin = {"s32": -5, "s64": -3}.get(kind, 0x7FFFFFF0)
        relation = self.rng.choice(["lt", "lt", "le", "lt" if by_lane or form == "post" else "ne"])
        ends = (begin, begin + trips * step)
        before, first, bound = self.ends(scope, kind, limit, ends, step, down=down, by_lane=by_lane)
        uniform = not by_lane and self.chance(0.6)
        apart = {} if uniform else {"mask": None, "blockwide": False}
        bounds = (ends[0] - 4 * step, ends[1] + 4 * step + (16 if bound == limit else 0))
        inner = scope.inside(
            counters=(*scope.counters, (counter, *bounds)), trips=scope.trips * (trips + 1), jumps=not uniform, **apart
        ).protecting(counter, limit)
        body = self.statements(inner, self.rng.randrange(1, 8))
        (predicate,) = self.target(scope, "p")
        step, relation = (-step, "gt") if down else (step, relation)
        return Group([*before, Loop(counter, kind, first, step, relation, bound, form, predicate, body)])

    def ends(
        self, scope: Scope, kind: str, limit: str, ends: tuple[int, int], step: int, *, down: bool, by_lane: bool
    ) -> tuple[list[Statement], Operand, Operand]:
        """Statements before a loop, its start and its bound; one of them may be a register, another in each lane."""
        mask = (1 << bits_of(kind)) - 1
        least, most = (Constant(x & mask) for x in ends)
        if by_lane:
            size = f"b{bits_of(kind)}"
            reach = Constant(min(7, max(1, (1 << (ends[1] - ends[0]).bit_length() - 1) - 1)))
            before: list[Statement] = [
                Op(f"and.{size}", [limit], [self.source(scope, size), reach]),
                Op(f"add.{kind}", [limit], [limit, least]),
            ]
            return before, *((limit, least) if down else (least, limit))
        if not down and step == 1 and bits_of(kind) == 32 and scope.fixed and self.chance(0.3):
            return [Op(f"add.{kind}", [limit], ["%n0", least])], least, limit
        return [], *((most, least) if down else (least, most))

    def call(self, scope: Scope) -> Statement:
        at = self.rng.randrange(len(self.functions))
        function = self.functions[at]
        arguments = [
            scope.inputs if name == "%d20" else self.rng.choice(scope.pools[CLASSES[type_]])
            for name, type_ in function.parameters
        ]
        return Call(at, arguments, self.target(scope, CLASSES[function.result[1]])[0])
