"""LLVM text to machine code, and machine code into the process (llvmlite: ORC)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tilewright.errors import PtxError
from tilewright.settings import Settings
from tilewright.simt.run import cache
from tilewright.simt.translate.runtime import runtime_ir

_RUNTIME = ("tw.run", "tw.recheck", "tw.fault", "tw.stop", "tw.print")


class Host:
    """The host's processor as a compilation target, and one JIT that keeps what is linked into it alive.

    Parameters
    ----------
    features : str, optional
        LLVM feature string; the host's own by default. Part of every cache key.
    folder : pathlib.Path, optional
        Where the runtime's machine code is kept; without it, it is compiled.
    """

    def __init__(self, features: str | None = None, folder: Path | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.features = llvm.get_host_cpu_features().flatten() if features is None else features
        self.cpu = "" if features is not None else llvm.get_host_cpu_name()
        self._target = llvm.Target.from_default_triple()
        self._jit = llvm.create_lljit_compiler(self._machine())
        self._linked = 0
        self.runtime = self.link(self._runtime_code(folder), _RUNTIME)

    @property
    def identity(self) -> str:
        """What compiled code depends on: compiler and processor."""
        return f"{llvm.llvm_version_info}/{self._target.triple}/{self.cpu}/{self.features}"

    def _runtime_code(self, folder: Path | None) -> bytes:
        """The runtime's machine code, kept in `folder` from one process to the next."""
        if folder is None:
            return self.compile(runtime_ir())
        key = cache.digest(cache.fingerprint(), self.identity, "runtime")
        code = cache.load_code(folder, key)
        if code is None:
            code = self.compile(runtime_ir())
            cache.store_code(folder, key, code)
        return code

    def _machine(self, level: int = 2) -> Any:
        return self._target.create_target_machine(cpu=self.cpu, features=self.features, opt=level, jit=True)

    def compile(self, ir: str, parts: Iterable[str] = (), *, optimise: bool = True) -> bytes:
        """Machine code of an LLVM module and further `parts` it calls, as an object file's bytes."""
        try:
            module = llvm.parse_assembly(ir)
            module.verify()
        except RuntimeError as error:
            raise PtxError(f"the kernel has operands that cannot be compiled ({error})") from error
        for part in sorted(set(parts)):
            module.link_in(llvm.parse_assembly(part))
        machine = self._machine(2 if optimise else 0)
        if optimise:
            options = llvm.create_pipeline_tuning_options(speed_level=1)
            options.loop_vectorization = False
            options.slp_vectorization = False
            options.loop_unrolling = False
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        return bytes(machine.emit_object(module))

    def link(self, code: bytes, exports: tuple[str, ...], imports: dict[str, int] | None = None) -> Library:
        """Load an object; returns the addresses of what it exports."""
        self._linked += 1
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in exports:
            builder.export_symbol(symbol)
        for symbol, address in (imports or {}).items():
            builder.import_symbol(symbol, address)
        tracker = builder.link(self._jit, f"tilewright.{self._linked}")
        return Library({symbol: tracker[symbol] for symbol in exports}, tracker)

    def link_kernel(self, code: bytes, symbol: str) -> Library:
        """Load a translated kernel, with the runtime's functions in reach."""
        imports = {name: address for name, address in self.runtime.addresses.items() if name != "tw.run"}
        return self.link(code, (symbol,), imports)


class Library:
    """Loaded machine code: addresses by symbol. It is unloaded when nothing refers to it any more."""

    def __init__(self, addresses: dict[str, int], tracker: Any) -> None:
        self.addresses = addresses
        self._tracker = tracker


@functools.cache
def host() -> Host:
    """The process's one JIT."""
    return Host(folder=Settings.from_environ().cache_dir / "translations")
