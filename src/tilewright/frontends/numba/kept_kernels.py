"""numba-cuda's kernels whose PTX was kept from an earlier process, so that Numba need not compile them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ground.native.memo import memo
from tilewright.simulate.device.linking import ObjectCode

#: Attributes of a kernel that only Numba's compiler gives.
_COMPILED = ("call_helper", "environment", "fndesc", "target_context", "_type_annotation")


def texts_of(kernel: Any) -> tuple[str, ...]:
    """A compiled kernel's name, its PTX and its linked PTX; none if a kernel restored from them is not the same."""
    library = kernel._codelibrary
    more = (library._linking_files, library._setup_functions, library._teardown_functions, library.referenced_objects)
    told = library.use_cooperative or kernel.launch_config_sensitive or kernel.target_context.enable_nrt or kernel.debug
    texts = library.get_asm_strs()
    return () if any(more) or told or len(texts) > 1 else (kernel.entry_name, *texts, library.get_cubin().ptx)


def restore(
    kernel: Any,
    texts: Sequence[str],
    compile_it: Callable[..., None],
    function: Any,
    argtypes: Any,
    options: Mapping[str, Any],
) -> None:
    """Make a new object of Numba's class the kernel that has these texts.

    `compile_it` compiles it after all, when the program asks for what only the compiler knows, such as its LLVM text.
    """
    numba = importlib.import_module("numba.cuda")
    kernel.__class__ = _kernel()
    carveout = options.get("shared_memory_carveout")
    vars(kernel).update(
        _codelibrary=_library()(kernel, *texts),
        _compile=lambda: compile_it(kernel, function, argtypes, **options),
        _referenced_environments=[],
        argtypes=argtypes,
        cooperative=False,
        debug=False,
        entry_name=texts[0],
        entry_point=None,
        extensions=[],
        launch_bounds=options.get("launch_bounds"),
        launch_config_sensitive=False,
        lifted=[],
        lineinfo=options.get("lineinfo", False),
        objectmode=False,
        py_func=function,
        shared_memory_carveout=None if carveout is None else kernel._parse_carveout(carveout),
        signature=numba.typing.signature(numba.types.void, *argtypes),
    )


@memo
def _kernel() -> Any:
    """The class of restored kernels."""
    original = importlib.import_module("numba.cuda.dispatcher")._Kernel

    class Kept(original):  # type: ignore[misc, valid-type]
        """Numba's kernel, until the program asks for what only the compiler knows."""

        def compiled(self) -> Any:
            self.__class__ = original
            self._compile()
            return self

        def __getattr__(self, name: str) -> Any:
            if name not in _COMPILED:
                raise AttributeError(f"{original.__name__!r} object has no attribute {name!r}")
            return getattr(self.compiled(), name)

        def bind(self) -> None:
            self.initialize_once(self._codelibrary.get_cufunc().module)

        def _reduce_class(self) -> Any:
            return original

        def _reduce_states(self) -> Any:
            return self.compiled()._reduce_states()

    return Kept


@memo
def _library() -> Any:
    """The class of their code."""
    original = importlib.import_module("numba.cuda.codegen").CUDACodeLibrary

    class KeptLibrary(original):  # type: ignore[misc, valid-type]
        """Has PTX for one compute capability; compiles for anything else."""

        def __init__(self, kernel: Any, entry: str, ptx: str, linked: str) -> None:
            super().__init__(None, entry, entry_name=entry)
            self._kernel, cc = kernel, self._ensure_cc(None)
            self._ptx_cache[cc], self._cubin_cache[cc] = [ptx], ObjectCode(b"", "cubin", ptx=linked)
            self._linkerinfo_cache[cc] = ""
            self._finalized = True

        @property
        def llvm_strs(self) -> Any:
            return self._kernel.compiled()._codelibrary.llvm_strs

        def get_asm_strs(self, cc: Any = None) -> Any:
            found = self._ptx_cache.get(self._ensure_cc(cc))
            return found or self._kernel.compiled()._codelibrary.get_asm_strs(cc)

        def get_lto_ptx(self, cc: Any = None) -> Any:
            return self._kernel.compiled()._codelibrary.get_lto_ptx(cc)

    return KeptLibrary
