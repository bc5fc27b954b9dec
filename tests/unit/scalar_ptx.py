"""A second, plain interpreter of a small part of PTX: one thread and one instruction at a time, in Python's integers.

It shares nothing with the translator. Programs are lists of blocks of tuples; `text` writes them as PTX, `execute` runs
one thread of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MASK = 0xFFFFFFFF


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


#: opcode -> meaning of its sources, as unsigned 32-bit numbers
MEANING = {
    "add.u32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "not.b32": lambda a: ~a,
    "neg.s32": lambda a: -a,
    "shl.b32": lambda a, b: a << min(b, 32),
    "shr.u32": lambda a, b: a >> min(b, 32),
    "shr.s32": lambda a, b: signed(a) >> min(b, 32),
    "min.u32": min,
    "max.s32": lambda a, b: max(signed(a), signed(b)),
    "rem.u32": lambda a, b: a % b if b else 0xFFFFFFFF,
    "mov.u32": lambda a: a,
}
ARITY = {"not.b32": 1, "neg.s32": 1, "mov.u32": 1, "mad.lo.s32": 3}
COMPARISONS = {
    "eq.u32": lambda a, b: a == b,
    "ne.s32": lambda a, b: a != b,
    "lt.u32": lambda a, b: a < b,
    "le.s32": lambda a, b: signed(a) <= signed(b),
    "gt.u32": lambda a, b: a > b,
    "ge.s32": lambda a, b: signed(a) >= signed(b),
}


@dataclass
class Block:
    """Operations (opcode, destination, sources, guard) and an end: targets by predicate, index, or plain."""

    ops: list[tuple[str, str, tuple[object, ...], str]] = field(default_factory=list)
    end: tuple[object, ...] = ("exit",)


@dataclass
class Flow:
    """A program; every jump back costs fuel, so that each thread ends."""

    blocks: list[Block]
    registers: int
    predicates: int
    fuel: int
    #: Some registers and predicates start with another value in each lane.
    lanes: bool = True

    #: Declarations of the body besides those of every kernel.
    DECLARATIONS = """.reg .b32 %fuel, %own_s, %own_g, %zero; .reg .b64 %own_l, %own_g64; .reg .pred %out_of;
        .shared .align 16 .b8 mine[16384]; .local .align 16 .b8 own[16];"""

    def text(self) -> str:
        """The body as PTX: results are stored by register at %out, of this thread; %a1 has 16 bytes a thread."""
        lines = [f"mov.u32 %r{i}, {i + 1};" for i in range(self.registers)]
        lines += [f"setp.ne.u32 %p{i}, 0, {i & 1};" for i in range(self.predicates)]
        if self.lanes:
            lines.append("mov.u32 %r1, %tid; and.b32 %r3, %lane, 7; mul.lo.u32 %r5, %tid, 5;")
            lines.append("and.b32 %r100, %tid, 1; setp.ne.u32 %p1, %r100, 0; setp.lt.u32 %p2, %lane, 11;")
        lines.append(f"mov.u32 %fuel, {self.fuel};")
        # four own words in each space, addressed by a pattern and by a vector
        lines.append(
            "mul.lo.u32 %own_s, %tid, 16; mov.u64 %own_l, own; mov.u32 %own_g, %gid; xor.b32 %own_g, %own_g, 1;"
        )
        lines.append("mad.wide.u32 %own_g64, %own_g, 16, %a1; mov.u32 %zero, 0;")
        for word in range(4):
            lines.append(f"st.shared.u32 [%own_s+{4 * word}], %zero; st.local.u32 [own+{4 * word}], %zero;")
        for index, block in enumerate(self.blocks):
            if block.end[0] == "index":
                lines.append(f"LIST{index}: .branchtargets {', '.join(f'E{index}_{t}' for t in block.end[2])};")
        for index, block in enumerate(self.blocks):
            lines.append(f"B{index}:")
            for opcode, destination, sources, guard in block.ops:
                if opcode.startswith(("ld.", "st.")):
                    lines.append(f"{guard}{_access(opcode, destination, sources)}")
                else:
                    lines.append(f"{guard}{opcode} {destination}, {', '.join(map(str, sources))};")
            lines += self._end(index, block)
        lines.append("END:")
        lines.append(f"mul.lo.u32 %r100, %gid, {4 * self.registers}; cvt.u64.u32 %d1, %r100; add.u64 %d1, %d1, %out;")
        lines += [f"st.global.u32 [%d1+{4 * i}], %r{i};" for i in range(self.registers)]
        return "\n".join(lines)

    def _end(self, index: int, block: Block) -> list[str]:
        kind, *rest = block.end
        if kind == "exit":
            return ["bra END;"]
        if kind == "jump":
            return self._edge(index, rest[0])
        if kind == "branch":
            guard, taken, other = rest
            return [f"@{guard} bra E{index}_{taken};", *self._edge(index, other), *self._landing(index, [taken])]
        register, targets = rest
        size = len(targets)
        return [
            f"rem.u32 %r101, {register}, {size}; brx.idx %r101, LIST{index};",
            *self._landing(index, dict.fromkeys(targets)),
        ]

    def _landing(self, index: int, targets) -> list[str]:
        return [line for t in targets for line in (f"E{index}_{t}:", *self._edge(index, t))]

    def _edge(self, index: int, target: int) -> list[str]:
        if target > index:
            return [f"bra B{target};"]
        return ["sub.u32 %fuel, %fuel, 1; setp.eq.u32 %out_of, %fuel, 0; @%out_of bra END;", f"bra B{target};"]

    def execute(self, specials: dict[str, int]) -> list[int]:
        """One thread's registers in the end."""
        values: dict[str, int] = dict(specials)
        values |= {f"%r{i}": i + 1 for i in range(self.registers)}
        values |= {f"%p{i}": i & 1 for i in range(self.predicates)}
        if self.lanes:
            thread, lane = specials["%tid"], specials["%lane"]
            values |= {"%r1": thread, "%r3": lane & 7, "%r5": 5 * thread, "%p1": thread & 1, "%p2": int(lane < 11)}
        values |= {f"{space}{word}": 0 for space in SPACES for word in range(4)}
        fuel, at = self.fuel, 0
        while True:
            block = self.blocks[at]
            for op in block.ops:
                _step(values, *op)
            before = at
            kind, *rest = block.end
            if kind == "exit":
                break
            if kind == "jump":
                at = rest[0]
            elif kind == "branch":
                at = rest[1] if _holds(values, rest[0]) else rest[2]
            else:
                at = rest[1][values[rest[0]] % len(rest[1])]
            if at <= before:
                fuel -= 1
                if fuel == 0:
                    break
        return [values[f"%r{i}"] for i in range(self.registers)]


SPACES = {"global": "%own_g64", "shared": "%own_s", "local": "%own_l"}


def _access(opcode: str, register: str, sources: tuple[object, ...]) -> str:
    space, word = sources
    address = f"[{SPACES[str(space)]}+{4 * int(str(word))}]"
    order = (register, address) if opcode.startswith("ld.") else (address, register)
    return f"{opcode} {', '.join(order)};"


def _holds(values: dict[str, int], guard: str) -> bool:
    return bool(values[guard.lstrip("!")]) != guard.startswith("!")


def _step(values: dict[str, int], opcode: str, destination: str, sources: tuple[object, ...], guard: str) -> None:
    if guard and not _holds(values, guard.strip("@ ")):
        return
    if opcode.startswith(("ld.", "st.")):
        place = "".join(map(str, sources))
        if opcode.startswith("ld."):
            values[destination] = values[place]
        else:
            values[place] = values[destination]
        return
    read = [s & MASK if isinstance(s, int) else values[str(s)] for s in sources]
    if opcode.startswith("setp."):
        values[destination] = int(COMPARISONS[opcode[5:]](*read))
    elif opcode == "selp.u32":
        values[destination] = read[0] if read[2] else read[1]
    else:
        values[destination] = MEANING[opcode](*read) & MASK


def random_flow(rng: random.Random, blocks: int = 8, registers: int = 7, predicates: int = 3, fuel: int = 20) -> Flow:
    """Any graph over the blocks: loops of any nesting, entered anywhere, left anywhere."""
    flow = Flow([], registers, predicates, fuel)
    constants = [0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 255, 4096, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0]
    names = [f"%r{i}" for i in range(registers)]
    specials = ["%tid", "%lane", "%block"]
    lanes = flow.lanes = rng.random() < 0.85  # some programs are uniform throughout
    memory = rng.random() < 0.5

    def source() -> object:
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(names)
        if kind < 0.75:
            return rng.choice(specials if lanes else ["%block"])
        return rng.choice(constants)

    def guard(likely: float) -> str:
        if rng.random() > likely:
            return ""
        return f"@{rng.choice(['', '!'])}%p{rng.randrange(predicates)} "

    def operation() -> tuple[str, str, tuple[object, ...], str]:
        kind = rng.random()
        if kind < 0.3:
            compare = rng.choice(list(COMPARISONS))
            return f"setp.{compare}", f"%p{rng.randrange(predicates)}", (rng.choice(names), source()), guard(0.1)
        if memory and kind > 0.8:
            space = rng.choice(list(SPACES))
            opcode = f"{rng.choice(['ld', 'st'])}.{space}.u32"
            return opcode, rng.choice(names), (space, rng.randrange(4)), guard(0.3)
        if kind < 0.4:
            return "selp.u32", rng.choice(names), (source(), source(), f"%p{rng.randrange(predicates)}"), guard(0.2)
        opcode = rng.choice(list(MEANING))
        return opcode, rng.choice(names), tuple(source() for _ in range(ARITY.get(opcode, 2))), guard(0.2)

    for index in range(blocks):
        block = Block([operation() for _ in range(rng.randrange(0, 6))])
        kind = rng.random()
        if index == blocks - 1 or kind < 0.05:
            block.end = ("exit",)
        elif kind < 0.25:
            block.end = ("jump", rng.randrange(blocks))
        elif kind < 0.9:
            taken, other = rng.sample(range(blocks), 2)
            negated = rng.choice(["", "!"])
            block.end = ("branch", f"{negated}%p{rng.randrange(predicates)}", taken, other)
        else:
            block.end = ("index", rng.choice(names), [rng.randrange(blocks) for _ in range(rng.randrange(2, 5))])
        flow.blocks.append(block)
    return flow
