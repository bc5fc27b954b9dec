"""Planted variants: kernels of the corpus rewritten so that they mean the same: `python tests/findings/variants.py`.

Each defect of the corpus in CUDA C++, and each clean kernel beside one, is written in other ways: with loops unrolled
or kept, indices by other arithmetic or from a function that is called, elements through pointers, names changed, the
body in another function, compiled with less optimisation. No way changes a line's number. Of every variant of a defect
`check` must give one of the codes of its label, and of every clean one nothing. A way that does not fit a kernel, or a
kernel that does not compile so, is no variant.

    python tests/findings/variants.py [--count 400] [--seed 0] [KIND ...]
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import corpus
import precision
from case import Case, Text

from tilewright.errors import TilewrightError

_HELPER = re.compile(r"(?<!> )(?<!>\n)__global__ void (\w+)\(([^()]*)\) \{")
_INDEXED = re.compile(r"(?<![\w.>\])])(?!return\b)(\w+)\[([^][;{}]+)\](?!\s*\[)")
_SHARED = re.compile(r"__shared__ (?:alignas\(\d+\) )?(?:\w+ )+?(\w+)\[")


def _arguments(declared: str) -> str:
    return ", ".join(re.findall(r"(\w+)(?:\[\d*\])?$", one.strip())[0] for one in declared.split(",") if one.strip())


def _in_function(text: str, kind: str) -> str:
    """Each kernel that is no template, with its body in another function."""

    def parted(found: re.Match[str]) -> str:
        name, declared = found.groups()
        call = f"__global__ void {name}({declared}) {{ {name}_body({_arguments(declared)}); }}"
        body = f"__device__ {kind} void {name}_body({declared})"
        return f"{body}; {call} {body} {{"

    return _HELPER.sub(parted, text)


def _through_pointers(text: str) -> str:
    """Elements as `*(name + (index))`; not what is declared, and not in macros and assembly."""

    def line(one: str) -> str:
        if re.match(r"\s*(?:#|extern\b)", one) or "asm" in one or "__shared__" in one or re.search(r"\w \w+\[", one):
            return one
        return _INDEXED.sub(r"(*(\1 + (\2)))", one)

    return "\n".join(map(line, text.split("\n")))


def _renamed(text: str) -> str:
    """Arrays of shared memory by other names."""
    for name in sorted(set(_SHARED.findall(text))):
        text = re.sub(rf"(?<![\w.]){name}\b(?!\()", f"{name}_of_the_block", text)
    return text


def _called(text: str) -> str:
    """The index of a thread as the result of a function, which stands before the first function or type."""
    if "threadIdx.x" not in text:
        return text
    function = "__device__ __noinline__ unsigned planted_index(unsigned value) { return value; }"
    first = re.search(r"^(?:__device__|__global__|template|struct|static)\b", text, re.MULTILINE)
    at = first.start() if first else len(text)
    return f"{text[:at]}{function} {text[at:].replace('threadIdx.x', 'planted_index(threadIdx.x)')}"


_PLAIN, _ROLLED = "not optimised", "rolled"
#: Files and texts of kernels whose meaning a way changes. Without optimisation, or with sums that a loop which is kept
#: sets by index, the registers of a product are loaded after its fence, which is a defect (TW413). In an unrolled loop
#: each product has sums of its own, and PTX does not tell whether their zeros stood before the fence in the source.
#: Only the optimiser loads by `ld.global.nc` what `__restrict__` lets it (TW310).
_UNFIT = {
    _PLAIN: re.compile("^wgmma|^warpgroups|__restrict__"),
    _ROLLED: re.compile("^wgmma"),
    "unrolled": re.compile("^wgmma_zeros_in_loop"),
}
#: The ways to write a kernel: its text, and further options of the compiler.
WAYS: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "unrolled": (lambda text: re.sub(r"\bfor \(", '_Pragma("unroll") for (', text), ()),
    _ROLLED: (lambda text: re.sub(r"\bfor \(", '_Pragma("unroll 1") for (', text), ()),
    "arithmetic": (lambda text: text.replace("threadIdx.x", "(((threadIdx.x + 7) * 2 - 14) / 2)"), ()),
    "blocks": (lambda text: text.replace("blockIdx.x", "((blockIdx.x ^ 5) ^ 5)"), ()),
    "called": (_called, ()),
    "pointers": (_through_pointers, ()),
    "renamed": (_renamed, ()),
    "inlined": (lambda text: _in_function(text, "__forceinline__"), ()),
    "in a function": (lambda text: _in_function(text, "__noinline__"), ()),
    _PLAIN: (lambda text: text, ("--Ofast-compile=max",)),
    "without fused sums": (lambda text: text, ("--fmad=false",)),
}


@dataclass(frozen=True)
class Variant:
    """A kernel of the corpus, written in another way."""

    way: str
    path: Path
    case: Case

    @property
    def codes(self) -> frozenset[str]:
        """The codes of which one is right; none for a clean kernel."""
        if self.path.parent.name == "verdicts":
            return frozenset(self.case.codes)
        return frozenset(code for _, code in corpus.expected(self.case))


def variant(path: Path, case: Case, way: str) -> Variant | None:
    """A case in another way; None if that leaves it as it is, or its kernel is no CUDA C++."""
    if not isinstance(case.kernel, Text) or case.kernel.language != "cuda":
        return None
    written, options = WAYS[way]
    text = written(case.kernel.text)
    if (text == case.kernel.text and not options) or (way in _UNFIT and _UNFIT[way].search(f"{path.stem}\n{text}")):
        return None
    assert text.count("\n") == case.kernel.text.count("\n")
    kernel = dataclasses.replace(case.kernel, text=text, options=(*case.kernel.options, *options))
    return Variant(way, path, dataclasses.replace(case, kernel=kernel))


def of_corpus(kinds: frozenset[str] = frozenset()) -> Iterator[Variant]:
    """Every variant of kernels whose own verdict is right, in the order of files, cases and ways."""
    defects = [path for path in corpus.files("defects") if path.stem.split("_")[0] in precision.KINDS]
    for path in [*corpus.files("verdicts"), *defects]:
        if kinds and not kinds & {path.stem, path.stem.split("_")[0]}:
            continue
        for case in corpus.cases(path):
            made = (variant(path, case, way) for way in WAYS if not case.known)
            yield from (one for one in made if one is not None)


def chosen(variants: list[Variant], count: int, seed: int) -> list[Variant]:
    """As many variants of defects as that, and of clean kernels: of each way and kind alike, in the order of files."""
    draw = random.Random(seed)
    some: list[Variant] = []
    for defective in (True, False):
        groups: dict[tuple[str, Path], list[Variant]] = {}
        for one in variants:
            if bool(one.codes) is defective:
                groups.setdefault((one.way, one.path), []).append(one)
        for group in groups.values():
            draw.shuffle(group)
        order = [*groups.values()]
        draw.shuffle(order)
        turns = (group[turn] for turn in range(max(map(len, order), default=0)) for group in order if turn < len(group))
        some += [one for one, _ in zip(turns, range(count), strict=False)]
    return sorted(some, key=lambda one: (one.path, one.way))


def wrong(one: Variant) -> str | None:
    """What is wrong with what `check` says of a variant, "" for nothing; None if it does not compile."""
    try:
        one.case.launchable()
    except TilewrightError:
        return None
    found = precision.found_by_check(one.case)
    if one.codes and not found & one.codes:
        return f"due {' or '.join(sorted(one.codes))}, found {', '.join(sorted(found)) or 'nothing'}"
    return f"found {', '.join(sorted(found))}" if found - one.codes else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=400, help="variants of defects, and of clean kernels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("kinds", nargs="*")
    options = parser.parse_args()
    made, failed = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for one in chosen([*of_corpus(frozenset(options.kinds))], options.count, options.seed):
        said = wrong(one)
        if said is None:
            continue
        made[one.way, bool(one.codes)] += 1
        if said:
            failed[one.way, bool(one.codes)] += 1
            print(f"{one.path.stem}/{one.case.name}, {one.way}: {said}", flush=True)
    print(f"{'way':20} defects lost clean false")
    for way in WAYS:
        planted, clean = (way, True), (way, False)
        print(f"{way:20} {made[planted]:7} {failed[planted]:4} {made[clean]:5} {failed[clean]:5}")
    total = [sum(n for (_, one), n in some.items() if one is it) for it in (True, False) for some in (made, failed)]
    print(f"{'all':20} {total[0]:7} {total[1]:4} {total[2]:5} {total[3]:5}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
