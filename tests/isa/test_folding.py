"""Instructions with constant operands: our machine's results against those that the vendor's assembler folds.

The manual leaves open what a position beyond 255, a division by zero or the flag after a difference is; programs run on
what the assembler makes of them. NaNs are compared as NaNs: which one comes is the host's (docs/design/simt.md).
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from pathlib import Path

import folding
import pytest
import vendor
from harness import Compiled, forms_of, from_array, sample, signature, to_array

from tilewright.simulate.isa import Form

#: Chapters whose results are exact. Sums and products of floats have an oracle in fractions, which the assembler's own
#: folding is not: it rounds 0x1.9e63bcp-53 - 0x1.e993b4p-55, a tie, to the odd neighbour.
MODULES = ("integer", "integer_bits", "integer_carry", "logic", "compare", "extrema", "convert", "convert_packed")
KINDS = ("lane", "carry")
#: Folded on the bits, NaN or not: a NaN without a payload in the upper bits becomes an infinity.
_LOSES_NANS = "cvt.rna.tf32", "cvt.rna.satfinite.tf32"
#: Forms of one text: compile time grows faster than the text.
_TOGETHER = 24
_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52)}


def chosen(module: str, most: int) -> list[Form]:
    """At most `most` forms of every row."""
    rows = importlib.import_module(f"tilewright.simulate.isa.{module}").rows
    by_row: dict[int, list[Form]] = {}
    for form in forms_of(rows):
        if form.row.kind in KINDS and "b128" not in form.name:
            by_row.setdefault(id(form.row), []).append(form)
    rng = random.Random(module)
    return list({f.name: f for forms in by_row.values() for f in rng.sample(forms, min(most, len(forms)))}.values())


def same(ptx_type: str, here: int, there: int) -> bool:
    """Whether two bit patterns are equal. All NaNs are equal; of an 8-bit type only the low bits count."""
    if ptx_type in ("s8", "u8"):
        there &= 0xFF
    if here == there:
        return True
    element, _, packed = ptx_type.partition("x")
    if packed and element in _FORMATS:
        return all(same(element, here >> at & 0xFFFF, there >> at & 0xFFFF) for at in (0, 16))
    if ptx_type not in _FORMATS:
        return False
    exponent, fraction = _FORMATS[ptx_type]
    infinity, magnitude = ((1 << exponent) - 1) << fraction, (1 << exponent + fraction) - 1
    return (here & magnitude) > infinity and (there & magnitude) > infinity


def differences(forms: Sequence[Form], count: int, folder: Path) -> tuple[list[str], int]:
    """Where this machine and the assembler differ, and how many results were compared; a few forms at a time."""
    editions = folding.editions_of(forms, folder)
    known = [form for form in forms if form.name in editions and not form.name.startswith(_LOSES_NANS)]
    parts = [
        _differences(known[at : at + _TOGETHER], editions, count, folder) for at in range(0, len(known), _TOGETHER)
    ]
    return [text for found, _ in parts for text in found], sum(compared for _, compared in parts)


def _differences(
    forms: Sequence[Form], editions: dict[str, tuple[str, str]], count: int, folder: Path
) -> tuple[list[str], int]:
    columns = {f.name: sample(signature(f).source_types, random.Random(f.name), count) for f in forms}
    compiled = Compiled(forms, ["vector"])
    found, compared = [], 0
    for edition in set(editions.values()):
        mine = [form for form in forms if editions[form.name] == edition]
        cases = [(form, operands) for form in mine for operands in zip(*columns[form.name], strict=True)]
        answers = iter(folding.folded(cases, folder, edition))
        for form in mine:
            types = signature(form)
            arrays = [to_array(c, t) for c, t in zip(columns[form.name], types.source_types, strict=True)]
            outputs = [from_array(a) for a in compiled.run(form.name, "vector", arrays)]
            if form.row.kind == "carry" and not form.has("cc"):
                outputs[-1] = columns[form.name][-1]  # the flag stays what it was
            wrong = []
            for operands, *results in zip(zip(*columns[form.name], strict=True), *outputs, strict=True):
                for type_, here, there in zip(types.destination_types, results, next(answers), strict=True):
                    compared += there is not None
                    if there is not None and not same(type_, here, there):
                        wrong.append(f"{form.name} {[hex(o) for o in operands]}: {here:#x}, there {there:#x}")
            found += wrong[:4]
    return found, compared


@pytest.mark.skipif(not vendor.present(), reason="not run: the vendor's assembler is not installed")
@pytest.mark.parametrize(("most", "count"), [(1, 64), pytest.param(20, 192, marks=pytest.mark.volume)])
@pytest.mark.parametrize("module", MODULES)
def test_results_are_those_that_the_assembler_folds(module, most, count, tmp_path):
    found, compared = differences(chosen(module, most), count, tmp_path)
    assert not found, "\n".join(found[:60])
    assert compared > count // 2, "the assembler folded next to nothing"
