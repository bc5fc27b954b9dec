"""A table of the names of `cuda.core` that are replaced while a simulated GPU is installed.

The replacements compile and link to PTX with source lines. All other code of `cuda.core` calls the driver.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cuda import core  # it may have been imported just now, without being an attribute of `cuda` yet
from cuda.core import _device
from cuda.core._utils import cuda_utils

from tilewright.frontends.kernel_sources import at_its_lines
from tilewright.frontends.libcuda.errors import errors
from tilewright.frontends.passed import passing
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device import linking
from tilewright.simulate.device.gpu import SimulatedGpu


class Program(core.Program):  # type: ignore[misc]
    """Replaces `cuda.core.Program`: its machine code is PTX."""

    def __init__(self, code: Any, code_type: Any, options: Any = None) -> None:
        given = options if isinstance(options, core.ProgramOptions) else core.ProgramOptions(**options or {})
        if str(code_type).lower() == "c++" and not given.debug:
            given = dataclasses.replace(given, lineinfo=True)
            code = at_its_lines(code)
        super().__init__(code, code_type, given)
        self._ptx = code if str(code_type).lower() == "ptx" else None
        self._name = given.name or ""

    def compile(self, target_type: Any, name_expressions: Any = (), logs: Any = None, **named: Any) -> Any:
        """Like `cuda.core.Program.compile`."""
        if str(target_type) != "cubin":
            return super().compile(target_type, name_expressions, logs, **named)
        if self._ptx is not None:
            return core.ObjectCode.from_cubin(self._ptx.encode(), name=self._name)
        made = super().compile("ptx", name_expressions, logs)
        return core.ObjectCode.from_cubin(made.code, name=made.name, symbol_mapping=made.symbol_mapping)


class Linker:
    """Replaces `cuda.core.Linker`: linked code stays PTX."""

    def __init__(self, *objects: Any, options: Any = None) -> None:
        self._linker = linking.Linker(*objects, options=options)

    def link(self, target_type: Any) -> Any:
        """Like `cuda.core.Linker.link`."""
        code = self._linker.link("ptx").code
        make = core.ObjectCode.from_ptx if str(target_type) == "ptx" else core.ObjectCode.from_cubin
        return make(code)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._linker, name)


class Explanations:
    """Replaces the texts of the driver's errors: the simulated GPU's message for the last error comes first."""

    def __init__(self, before: Mapping[int, str]) -> None:
        self._before = before

    def get(self, number: int, otherwise: Any = None) -> Any:
        """The text of an error."""
        return errors().last(int(number)) or self._before.get(number, otherwise)


def _noting(launch: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `cuda.core.launch`: its launch says what it passes."""

    @functools.wraps(launch)
    def noted(stream: Any, config: Any, kernel: Any, *arguments: Any) -> Any:
        with passing(arguments):
            return launch(stream, config, kernel, *arguments)

    return noted


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    yield "cuda.core", "Program", Program
    yield "cuda.core", "launch", _noting(core.launch)
    yield "cuda.core", "Linker", Linker
    if hasattr(_device, "_tls"):  # its devices cache the properties of the first GPU
        yield _device.__name__, "_tls", threading.local()
    name = "DRIVER_CU_RESULT_EXPLANATIONS"
    if hasattr(cuda_utils, name):
        yield cuda_utils.__name__, name, Explanations(getattr(cuda_utils, name))
