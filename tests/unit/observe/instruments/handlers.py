"""Runs an instrument's handlers without a kernel: LLVM compiles them, addresses are made up, one row has the counts."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tilewright.simulate.events import EventKind, Handler, Instrument, Site

LANES = 32
FULL = 0xFFFF_FFFF
_WIDTHS: dict[str, Any] = {"ptr": ctypes.c_void_p, "i32": ctypes.c_uint32, "i64": ctypes.c_uint64}


#: An event that is no access.
NO_ACCESS = Site(EventKind.RUN, 1, "", "mov.b32")


def watched(instrument: Instrument, *sites: Site) -> list[bool]:
    """Whether an instrument has a handler for each site."""
    assert isinstance(instrument, Instrument)
    return [instrument.handler(one) is not None for one in sites]


class Harness:
    """One instrument's handlers, ready to call; counters start at zero.

    `native` compiles for this host, optimised; otherwise for the oldest x86-64 or AArch64, as written.
    """

    def __init__(self, instrument: Instrument, *, native: bool = True) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten() if native else ""
        self._machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name() if native else "", features=features, opt=2, jit=True
        )
        self._native = native
        self.instrument = instrument
        self.counters = np.zeros((1, instrument.slots), np.uint64)
        self._compiled: dict[str, tuple[object, Any]] = {}

    def access(self, addresses: list[int], mask: int, size: int, space: str = "") -> list[int]:
        """One warp's access; the counters it added, as integers."""
        lanes = np.array(addresses, np.uint64)
        assert lanes.shape == (LANES,)
        return self._call(self._handler(EventKind.ACCESS, size, space), mask, lanes.ctypes.data, size)

    def pattern(self, base: int, offsets: tuple[int, ...], mask: int, size: int, space: str = "") -> list[int]:
        """One warp's access by a base and constant offsets; the counters it added."""
        handler = self._handler(EventKind.ACCESS, size, space, offsets)
        assert handler.affine
        return self._call(handler, mask, base)

    def run(self, mask: int) -> list[int]:
        """One warp's run of a straight line; the counters it added."""
        return self._call(self._handler(EventKind.RUN), mask)

    def branch(self, mask: int, taken: int) -> list[int]:
        """One warp's branch; the counters it added."""
        return self._call(self._handler(EventKind.BRANCH), mask, taken)

    def _handler(self, kind: EventKind, size: int = 4, space: str = "", offsets: Any = None) -> Handler:
        """An instrument's handler for a kind; a site of each state space is tried in turn."""
        for known in (space,) if space else ("global", "shared", "local"):
            example = site(known, size=size) if kind is EventKind.ACCESS else Site(kind, 1, "", "mov.b32")
            found = self.instrument.handler(example, offsets)
            if found is not None:
                return found
        raise AssertionError(f"{self.instrument.name} has no handler of {kind}")

    def _call(self, handler: Handler, *arguments: int) -> list[int]:
        """Call a handler with no record, no memory, and the counters."""
        before = self.counters.copy()
        self._function(handler)(None, None, None, None, self.counters.ctypes.data, 0, *arguments)
        return (self.counters - before)[0].tolist()

    def _function(self, handler: Handler) -> Any:
        """A compiled handler; functions that it only declares may be missing in its text."""
        if handler.symbol not in self._compiled:
            module = llvm.parse_assembly(handler.text)
            for part in handler.needs:
                if isinstance(part, bytes):
                    module.link_in(llvm.parse_bitcode(part))
            module.verify()
            for function in module.functions:  # only functions that the handler calls are compiled
                if not function.is_declaration and function.name != handler.symbol:
                    function.linkage = "internal"
            builder = llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options(speed_level=2))
            unused = llvm.create_new_module_pass_manager()
            unused.add_global_dead_code_eliminate_pass()
            unused.run(module, builder)
            if self._native:
                builder.getModulePassManager().run(module, builder)
            kinds = [_WIDTHS[str(x.type)] for x in module.get_function(handler.symbol).arguments]
            library = (
                llvm.JITLibraryBuilder()
                .add_object_img(self._machine.emit_object(module))
                .export_symbol(handler.symbol)
                .add_current_process()
                .link(llvm.create_lljit_compiler(self._machine), handler.symbol)
            )
            self._compiled[handler.symbol] = (library, ctypes.CFUNCTYPE(None, *kinds)(library[handler.symbol]))
        return self._compiled[handler.symbol][1]


def site(space: str = "global", access: str = "load", size: int = 4, line: int = 1) -> Site:
    """An ACCESS site."""
    opcode = {"load": "ld", "store": "st", "atomic": "atom"}[access]
    return Site(EventKind.ACCESS, line, f"k.py:{line}", f"{opcode}.{space}.b{8 * size}", 1, space, access, size)
