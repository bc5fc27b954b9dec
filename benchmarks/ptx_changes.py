"""Random changes of PTX programs, by seed: what `mutation.py` launches.

A change is a row of `CHANGES`: a function that changes one thing of a program's tree, and how often it is drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import ptx_declarations
import ptx_descriptors
import ptx_instructions
from ptx_instructions import Place

from tilewright.simulate.ptx import parse, to_text
from tilewright.simulate.ptx.tree import Instruction

KERNELS = Path(__file__).parent / "mutation_kernels"

#: A function that changes one thing, and how often it is drawn.
Change = tuple[Callable[[Place], None], int]


class Stock:
    """The kernels by name, all or some, and all their instructions."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        paths = [path for path in sorted(KERNELS.glob("*.ptx")) if not names or path.stem in names]
        self.texts = {path.stem: path.read_text() for path in paths}
        modules = [parse(text) for text in self.texts.values()]
        bodies = [function.body for module in modules for function in module.functions.values()]
        self.instructions = [item for body in bodies for item in body if isinstance(item, Instruction)]


def mutated(stock: Stock, seed: int, changes: tuple[Change, ...] | None = None) -> tuple[str, str]:
    """A kernel's name and its text, changed in one to six places (one time in eight by characters, not by meaning)."""
    changes = CHANGES if changes is None else changes
    draw = random.Random(seed)
    name = draw.choice(list(stock.texts))
    text = stock.texts[name]
    if draw.random() < 0.125:
        return name, damaged(text, draw)
    module = parse(text)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        function = draw.choice([f for f in module.functions.values() if len(f.body) > 1])
        found = [i for i, item in enumerate(function.body) if isinstance(item, Instruction)]
        if found and changes:
            (change,) = draw.choices([row[0] for row in changes], [row[1] for row in changes])
            change(Place(module, function, draw.choice(found), stock.instructions, draw))
    return name, to_text(module)


def damaged(text: str, draw: random.Random) -> str:
    """Lines deleted, doubled or exchanged, words exchanged, and characters overwritten."""
    lines = text.splitlines()
    for _ in range(draw.choice((1, 2, 4))):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                words = re.findall(r"[%.\w]+", lines[at])
                if words:
                    given = draw.choice(re.findall(r"[%.\w]+", text))
                    lines[at] = lines[at].replace(draw.choice(words), given, 1)
            case _:
                column = draw.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + draw.choice("0159-+;,.[]{}%@!rpfdx_ ") + lines[at][column + 1 :]
    return "\n".join(lines) + "\n"


#: Changes and how often each is drawn.
CHANGES: tuple[Change, ...] = (
    (ptx_instructions.deleted, 3),
    (ptx_instructions.doubled, 3),
    (ptx_instructions.swapped, 3),
    (ptx_instructions.adopted, 3),
    (ptx_instructions.guarded, 3),
    (ptx_instructions.renamed, 3),
    (ptx_instructions.exchanged_modifier, 6),
    (ptx_instructions.changed_operands, 8),
    (ptx_instructions.exchanged_registers, 4),
    (ptx_instructions.displaced, 5),
    (ptx_instructions.barrier, 2),
    (ptx_instructions.call, 2),
    (ptx_descriptors.descriptor, 4),
    (ptx_descriptors.tensor_map, 4),
    (ptx_declarations.labels, 3),
    (ptx_declarations.retyped, 2),
    (ptx_declarations.resized, 3),
)
