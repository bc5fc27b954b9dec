"""Compiles LLVM text to machine code and loads machine code into the process (llvmlite: ORC)."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import Any

import llvmlite.binding as llvm

from tilewright.ground.native import halves
from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.calls import calls
from tilewright.ground.native.memo import memo
from tilewright.ground.native.pages import give_back

#: An LLVM module: text or bitcode.
Source = str | bytes


class Effort(Enum):
    """How much LLVM optimises: the level of code generation, and the passes before it (`None`: LLVM's own first level).

    LLVM's own levels search for patterns that hand-shaped code does not have. On the CPU engine's kernels they
    double the compile time, and the code is no faster (docs/design/cpu.md).
    """

    #: Code that may run only once: registers instead of stack slots, and fast instruction selection.
    QUICK = 0, ("sroa",)
    #: C that clang has optimised.
    COMPILED = 2, ()
    #: Text whose loops and vectors already have their final form.
    WRITTEN = 2, ("sroa", "simplify_cfg", "loop_rotate", "instruction_combine", "simplify_cfg")
    #: Text that calls C functions, which are inlined.
    INLINED = 2, None


class Library:
    """Loaded machine code: addresses by symbol. It may be unloaded when nothing refers to it any more."""

    def __init__(self, addresses: dict[str, int], loader: Compiler, parts: tuple[Library, ...]) -> None:
        self.addresses = addresses
        self._loader, self._parts = loader, parts  # keeps the code loaded, and what it calls


class Compiler:
    """The host's processor as a compilation target, and one JIT that owns the code linked into it.

    `features` are by default the host's own; they are part of every cache key.
    """

    def __init__(self, features: str | None = None) -> None:
        self._linked = 0
        # What LLVM needs to unload each library, and the libraries that nothing refers to any more. Python may collect
        # one at any point of any thread: a C function records it, which no interrupt reaches; the next call unloads it.
        self._loaded: dict[weakref.ref[Library], Any] = {}
        self._left: deque[weakref.ref[Library]] = deque()
        self.given = features
        self.features: str
        self.cpu: str
        calls().run(lambda check: self._begin(features))

    def _begin(self, features: str | None) -> None:
        give_back("libllvmlite")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.features = llvm.get_host_cpu_features().flatten() if features is None else features
        self.cpu = "" if features is not None else llvm.get_host_cpu_name()
        self._target = llvm.Target.from_default_triple()
        self._jit = llvm.create_lljit_compiler(self._machine(2))
        # By level of code generation. A machine sets up its tables when it first makes code: a quarter of the time of a
        # small kernel.
        self._machines = {effort.value[0]: self._machine(effort.value[0]) for effort in Effort}

    @property
    def identity(self) -> str:
        """The key of compiled code: compiler and processor."""
        return f"{llvm.llvm_version_info}/{self._target.triple}/{self.cpu}/{self.features}"

    def _machine(self, level: int) -> Any:
        return self._target.create_target_machine(cpu=self.cpu, features=self.features, opt=level, jit=True)

    def compile(
        self,
        ir: Source,
        parts: Iterable[Source] = (),
        *,
        exports: Collection[str] = (),
        effort: Effort | None = None,
    ) -> bytes:
        """Machine code of an LLVM module and further `parts` it calls, as an object file's bytes.

        `ir` and the `parts` are LLVM text or bitcode (see `tilewright.ground.native.bitcode`); each part is linked in
        once. With `exports`, functions that these do not call are dropped. The default `effort` depends on whether
        there are parts. No effort vectorises or unrolls loops.

        Raises ValueError: the text is not a valid module; the message is LLVM's.
        """
        parts = set(parts)
        chosen = effort or (Effort.INLINED if parts else Effort.WRITTEN)
        texts = sorted(part for part in parts if isinstance(part, str))
        codes = sorted(part for part in parts if isinstance(part, bytes))
        written = [*texts, ir] if isinstance(ir, str) else texts
        if any(halves.needed(text, self._target.triple, self.features) for text in written):
            codes.append(bitcode(halves.SOURCE))
        return calls().run(lambda check: self._compiled(_joined(ir, [*texts, *codes]), exports, chosen, check))

    def _compiled(self, module: Any, exports: Collection[str], effort: Effort, check: Callable[[], None]) -> bytes:
        check()
        level, passes = effort.value
        machine = self._machines[level]
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        if exports:
            _drop_the_rest(module, exports, builder)
        if passes is None:
            manager = builder.getModulePassManager()
        else:
            manager = llvm.create_new_module_pass_manager()
            for name in passes:
                getattr(manager, f"add_{name}_pass")()
        manager.run(module, builder)
        check()
        return bytes(machine.emit_object(module))

    def link(
        self,
        code: bytes,
        exports: tuple[str, ...],
        imports: dict[str, int] | None = None,
        parts: tuple[Library, ...] = (),
    ) -> Library:
        """Load an object that may call `imports` and what `parts` export; returns the addresses of what it exports."""
        called = dict(imports or {})
        for part in parts:
            called.update(part.addresses)
        return calls().run(lambda check: self._loaded_from(code, exports, called, parts))

    def _loaded_from(
        self, code: bytes, exports: tuple[str, ...], imports: dict[str, int], parts: tuple[Library, ...]
    ) -> Library:
        for _ in range(len(self._left)):
            self._loaded.pop(self._left.popleft()).close()
        self._linked += 1
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in exports:
            builder.export_symbol(symbol)
        for symbol, address in imports.items():
            builder.import_symbol(symbol, address)
        tracker = builder.link(self._jit, f"tilewright.{self._linked}")
        library = Library({symbol: tracker[symbol] for symbol in exports}, self, parts)
        self._loaded[weakref.ref(library, self._left.append)] = tracker
        return library


def parsed(source: Source, context: Any = None) -> Any:
    """An LLVM module, in LLVM's global context by default."""
    return (llvm.parse_assembly if isinstance(source, str) else llvm.parse_bitcode)(source, context)


def _joined(ir: Source, parts: Sequence[Source]) -> Any:
    """A module with its parts linked in; they are joined in pairs first.

    Each link scans the whole destination module, so linking one by one takes time of n^2.
    """
    try:
        module = parsed(ir)
        module.verify()
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    modules = [parsed(part) for part in parts]
    while len(modules) > 1:
        for one, other in zip(modules[::2], modules[1::2], strict=False):
            one.link_in(other)
        modules = modules[::2]
    for joined in modules:
        module.link_in(joined)
    return module


def _drop_the_rest(module: Any, exports: Collection[str], builder: Any) -> None:
    """Remove functions that neither `exports` nor what they call needs. LLVM itself may call `halves.SYMBOLS`."""
    kept = {*exports, *halves.SYMBOLS}
    for function in module.functions:
        if not function.is_declaration and function.name not in kept:
            function.linkage = "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, builder)


@memo
def compiler() -> Compiler:
    """The process's compiler for everything but the SIMT machine."""
    return Compiler()
