"""Run an instrument's handlers alone: compiled by LLVM, called with made-up addresses, counted in one row."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np

from tilewright.simt.events import EventKind, Handler, Instrument, Site

LANES = 32
FULL = 0xFFFF_FFFF


class Harness:
    """One instrument's handlers, ready to call; counters start at zero.

    `native` compiles for this host, optimised; otherwise for the oldest x86-64 or AArch64, as written.
    """

    def __init__(self, instrument: Instrument, *, native: bool = True) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten() if native else ""
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name() if native else "", features=features, opt=2, jit=True
        )
        self.instrument = instrument
        self.counters = np.zeros((1, instrument.slots), np.uint64)
        self._libraries = []
        self._functions = {}
        for kind in (EventKind.RUN, EventKind.ACCESS):
            handler = self._handler(kind)
            if handler is None:
                continue
            symbol, text = handler.symbol, handler.text
            module = llvm.parse_assembly(text)
            module.verify()
            if native:
                builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
                builder.getModulePassManager().run(module, builder)
            library = (
                llvm.JITLibraryBuilder()
                .add_object_img(machine.emit_object(module))
                .export_symbol(symbol)
                .add_current_process()
                .link(llvm.create_lljit_compiler(machine), symbol)
            )
            self._libraries.append(library)
            pointer, word = ctypes.c_void_p, ctypes.c_uint32
            where = (pointer,) * 5 + (word,)
            rest = (word,) if kind is EventKind.RUN else (word, pointer, word)
            self._functions[kind] = ctypes.CFUNCTYPE(None, *where, *rest)(library[symbol])

    def _handler(self, kind: EventKind) -> Handler | None:
        """The one that an instrument has for a kind, asked with a site in each state space."""
        for space in ("global", "shared", "local"):
            example = site(space) if kind is EventKind.ACCESS else Site(kind, 1, "", "mov.b32")
            found = self.instrument.handler(example)
            if found is not None:
                return found
        return None

    def _where(self) -> tuple[int | None, ...]:
        """What every handler begins with; these instruments only look at the counters."""
        return (None, None, None, None, self.counters.ctypes.data, 0)

    def access(self, addresses: list[int], mask: int, size: int) -> list[int]:
        """One warp's access; the counters it added, as integers."""
        before = self.counters.copy()
        lanes = np.array(addresses, np.uint64)
        assert lanes.shape == (LANES,)
        self._functions[EventKind.ACCESS](*self._where(), mask, lanes.ctypes.data, size)
        return (self.counters - before)[0].tolist()

    def run(self, mask: int) -> list[int]:
        """One warp's run of a straight line; the counters it added."""
        before = self.counters.copy()
        self._functions[EventKind.RUN](*self._where(), mask)
        return (self.counters - before)[0].tolist()


def site(space: str = "global", access: str = "load", size: int = 4, line: int = 1) -> Site:
    """An ACCESS site."""
    opcode = {"load": "ld", "store": "st", "atomic": "atom"}[access]
    return Site(EventKind.ACCESS, line, f"k.py:{line}", f"{opcode}.{space}.b{8 * size}", 1, space, access, size)
