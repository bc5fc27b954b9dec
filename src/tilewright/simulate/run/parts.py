"""C functions of instruments, compiled once for the unoptimised code of all kernels.

Optimised code inlines these functions. Unoptimised code does not, so without this module each kernel would compile its
own copy of them. Under `check`, the copies would be most of the code that is compiled for a kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tilewright.ground.native import secure_files, store
from tilewright.ground.native.compiler import Compiler, Effort, Library, Source
from tilewright.ground.native.functions import called, signatures, variables
from tilewright.ground.native.memo import Memo
from tilewright.simulate.run import cache


class Parts:
    """Libraries of C functions, in memory and on disk: one for each file, or for files that need each other.

    `imports` are the host addresses of the runtime's functions, which they may call.
    """

    def __init__(self, compiler: Compiler, imports: dict[str, int], capacity: int = 128) -> None:
        self._compiler, self._imports = compiler, imports
        self._libraries = Memo[Library](capacity)

    def made(self, handlers: Iterable[Source]) -> tuple[list[str], tuple[Library, ...]]:
        """The libraries of C functions among handlers, and their keys: from memory, from disk, or made now."""
        keys: list[str] = []
        libraries: list[Library] = []
        for unit in _units({part for part in handlers if isinstance(part, bytes)}):
            texts = (store.digest(part.hex()) for part in unit)
            keys.append(store.digest(cache.fingerprint(), self._compiler.identity, "parts", *texts))
            libraries.append(self._found(keys[-1], libraries) or self._compiled(keys[-1], unit, libraries))
        return keys, tuple(libraries)

    def found(self, keys: Iterable[str]) -> tuple[Library, ...] | None:
        """The libraries of these keys; None if one is no longer there."""
        libraries: list[Library] = []
        for key in keys:
            library = self._found(key, libraries)
            if library is None:
                return None
            libraries.append(library)
        return tuple(libraries)

    def _found(self, key: str, before: Sequence[Library]) -> Library | None:
        if library := self._libraries.peek(key):
            return library
        kept = store.read(store.room(secure_files.TRANSLATIONS), key, lambda header: tuple(header["exports"]))
        return self._linked(key, *kept, before) if kept else None

    def _compiled(self, key: str, unit: Sequence[bytes], before: Sequence[Library]) -> Library:
        exports = tuple(sorted(name for part in unit for name in signatures(part)))
        code = self._compiler.compile(unit[0], unit[1:], exports=exports, effort=Effort.COMPILED)
        store.write(store.room(secure_files.TRANSLATIONS), key, {"exports": exports}, code)
        return self._linked(key, exports, code, before)

    def _linked(self, key: str, exports: tuple[str, ...], code: bytes, before: Sequence[Library]) -> Library:
        return self._libraries.get(key, lambda: self._compiler.link(code, exports, self._imports, tuple(before)))


def _units(parts: Collection[bytes]) -> list[list[bytes]]:
    """The parts, those that call each other or share variables together, and each behind what it calls."""
    defined = {name: part for part in parts for name in signatures(part)}
    data = {part: variables(part) for part in parts}
    needs = {
        part: {defined[name] for name in called(part) if name in defined}
        | {other for other in parts if data[other].keys() & data[part].keys()}
        for part in parts
    }
    reached: dict[bytes, set[bytes]] = {}
    for part in parts:
        found, ahead = {part}, [part]
        while ahead:
            fresh = needs[ahead.pop()] - found
            found |= fresh
            ahead += fresh
        reached[part] = found
    units = {frozenset(other for other in reached[part] if part in reached[other]) for part in parts}
    # What a unit calls reaches less than the unit itself. Units are sorted, so that all processes have one key.
    return sorted((sorted(unit) for unit in units), key=lambda unit: (len(reached[unit[0]]), unit))
