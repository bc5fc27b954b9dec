"""The compiler of translated kernels: LLVM for this host, with the machine's runtime loaded."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from tilewright.errors import CompileError, PtxError
from tilewright.ground.native import secure_files, store
from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.compiler import Compiler, Effort, Library, Source
from tilewright.ground.native.memo import memo
from tilewright.ground.native.out_of_process import KilledError, compiled_apart
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.run import cache
from tilewright.simulate.run.parts import Parts
from tilewright.simulate.run.turns import pause_address

#: The functions that the runtime's files export.
_RUNTIME = (
    "tw_run",
    "tw_gives_way",
    "tw_recheck",
    "tw_fault",
    "tw_stop",
    "tw_print",
    "tw_copy",
    "tw_reach",
    "tw_pass",
    "tw_blame",
    "tw_bulk_outside",
    "tw_bulk_move",
    "tw_bulk_combine",
    "tw_bulk_fill",
    "tw_mbarrier_init",
    "tw_mbarrier_inval",
    "tw_mbarrier_expect",
    "tw_mbarrier_arrive",
    "tw_mbarrier_test",
    "tw_places",
    "tw_gather",
    "tw_scatter",
    "tw_move",
    "tw_spread",
    "tw_collect",
    "tw_unpack",
    "tw_mma_float",
    "tw_mma_by_rules",
    "tw_mma_quads",
    "tw_mma_small",
    "tw_mma_integer",
    "tw_mma_bits",
    "tw_mma_double",
    "tw_mma_sparse",
    "tw_mma_sparse_by_rules",
    "tw_mma_sparse_small",
    "tw_mma_scaled",
    "tw_wgmma",
    "tw_wgmma_units",
    "tw_columns_alloc",
    "tw_columns_dealloc",
    "tw_columns_close",
    "tw_columns_move",
    "tw_columns_copy",
    "tw_columns_product",
    "tw_columns_units",
    "tw_tensor_copy",
    "tw_tensor_distinct",
    "tw_tensor_keep",
    "tw_tensor_pieces",
    "tw_map_replace",
    "tw_map_copy",
    "tw_texture_read",
    "tw_surface_access",
    "tw_cluster_arrive",
    "tw_whole_product",
)
_FILES = (
    "scheduler.c",
    "barriers.c",
    "bulk.c",
    "clusters.c",
    "faults.c",
    "frames.c",
    "gathers.c",
    "matrices.c",
    "matrices_exact.c",
    "matrices_scaled.c",
    "matrices_sparse.c",
    "mbarriers.c",
    "printing.c",
    "tensor_copies.c",
    "tensor_maps.c",
    "tensor_memory.c",
    "tensor_products.c",
    "textures.c",
    "warpgroups.c",
    "whole_products.c",
)


#: Characters of LLVM text, times the square of the registers that 32 lanes take, for which LLVM takes about half a
#: second; a process apart takes 0.1 s to start. Optimisation takes some times as long.
_LONG_COST = 8_000_000
_OPTIMISED_COST = 4


class Host(Compiler):
    """A compiler that links the runtime's functions.

    The runtime's machine code is cached in `folder`; without a folder it is compiled each time.
    """

    def __init__(self, features: str | None = None, folder: Path | None = None) -> None:
        super().__init__(features)
        self.runtime = self.link(self._runtime_code(folder), _RUNTIME)
        self._text_cost = HostVectors.of(self.features).registers ** 2
        self._imports = {name: address for name, address in self.runtime.addresses.items() if name != "tw_run"}
        self._imports["tw_pause"] = pause_address()
        self.parts = Parts(self, self._imports)

    def _runtime_code(self, folder: Path | None) -> bytes:
        """The runtime's machine code, cached in `folder` for later processes."""
        runtime = [bitcode(Path(__file__).parents[1] / "runtime" / name) for name in _FILES]
        if folder is None:
            return self.compile(runtime[0], runtime[1:], exports=_RUNTIME, effort=Effort.COMPILED)
        key = store.digest(cache.fingerprint(), self.identity, "runtime")
        kept = store.read(folder, key, lambda header: None)
        if kept is not None:
            return kept[1]
        code = self.compile(runtime[0], runtime[1:], exports=_RUNTIME, effort=Effort.COMPILED)
        store.write(folder, key, {}, code)
        return code

    def compile_kernel(self, ir: str, handlers: Iterable[Source], symbol: str, *, optimise: bool = True) -> bytes:
        """Machine code of a translated kernel and the instruments' handlers that it calls.

        Quick code has no handlers that are written in C: `parts` has them. A long kernel is compiled in a process
        apart, which Ctrl-C ends at once.

        Raises PtxError: the PTX has operands that give an invalid LLVM module; CompileError: a signal ended LLVM.
        """
        if not optimise:
            handlers = [handler for handler in handlers if isinstance(handler, str)]
        effort = None if optimise else Effort.QUICK
        if len(ir) * self._text_cost * (_OPTIMISED_COST if optimise else 1) > _LONG_COST:
            try:
                return compiled_apart(self, ir, handlers, (symbol,), effort=effort, nice=0)
            except KilledError as error:
                why = "needs more than this host's memory" if error.signal == signal.SIGKILL else "ended the compiler"
                raise CompileError(f"the kernel {why} ({error}); unroll less") from error
            except ChildProcessError:  # LLVM refused it: here it says why
                pass
        try:
            return self.compile(ir, handlers, exports=(symbol,), effort=effort)
        except ValueError as error:
            raise PtxError(f"the kernel has operands that cannot be compiled ({error})") from error

    def compile_kernel_apart(self, ir: str, handlers: Iterable[Source], symbol: str) -> bytes:
        """Optimised machine code, made by another process; see `tilewright.ground.native.out_of_process`."""
        return compiled_apart(self, ir, handlers, (symbol,))

    def link_kernel(self, code: bytes, symbol: str, parts: tuple[Library, ...] = ()) -> Library:
        """Load a translated kernel, linked to the runtime's functions and to those of instruments in `parts`."""
        return self.link(code, (symbol,), self._imports, parts)


@memo
def host() -> Host:
    """The process's one JIT."""
    return Host(folder=store.room(secure_files.TRANSLATIONS))
