"""Every example in a docstring runs and prints what the docstring shows, where what it needs is installed."""

from __future__ import annotations

import doctest
import importlib
from importlib.util import find_spec

import pytest
from source_tree import Module, modules

from tilewright.errors import MissingExtraError


@pytest.mark.parametrize("module", [m for m in modules() if ">>>" in m.text], ids=lambda m: m.name or "tilewright")
def test_examples_run(module: Module, request: pytest.FixtureRequest) -> None:
    if module.name == "multiply.backends.opencl.product":  # its example multiplies on this machine's device
        request.getfixturevalue("opencl_device")
    if module.name in ("torch", "multiply.engine.libraries.torch_operator"):
        pytest.importorskip("torch", reason="not run: torch is not installed")
    try:
        loaded = importlib.import_module(f"tilewright.{module.name}".rstrip("."))
        examples = [one for one in doctest.DocTestFinder().find(loaded) if one.examples]
        for one in examples:
            doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(one)
        assert examples
    except (MissingExtraError, ModuleNotFoundError) as error:
        skip_without(error)
    except doctest.UnexpectedException as stopped:
        skip_without(stopped.exc_info[1])
    except doctest.DocTestFailure as failed:
        line = (failed.test.lineno or 0) + failed.example.lineno + 1
        pytest.fail(f"{failed.test.filename}:{line}: {failed.example.source}gave {failed.got}for {failed.example.want}")


def skip_without(error: BaseException) -> None:
    """Skip where the error is the lack of another project's package, and else raise it again.

    Nothing is lacking in the environment of `make test`, which has all extras.
    """
    lacks = isinstance(error, MissingExtraError) or (
        isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("tilewright")
    )
    if lacks and not all(map(find_spec, ("numba_cuda", "pyopencl"))):
        pytest.skip(f"not run: {error}")
    raise error
