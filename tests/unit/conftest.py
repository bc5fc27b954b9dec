"""Fakes for the catalogue and the machine, and the command line as a function."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakes
import pytest


@dataclass(frozen=True)
class Outcome:
    """A command's results."""

    status: int
    out: str
    err: str


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate cache, without the winners that other tests have kept."""
    from tilewright.multiply.backends import tuning_db

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    tuning_db.kept.cache_clear()
    yield tmp_path
    tuning_db.kept.cache_clear()


@pytest.fixture
def tilewright(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process, as the entry point does."""
    from tilewright.cli.main import main

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, arguments)])
        with pytest.raises(SystemExit) as leave:
            main()
        streams = capsys.readouterr()
        code = leave.value.code
        assert code is None or isinstance(code, int)
        assert "Traceback" not in streams.err + streams.out
        return Outcome(code or 0, streams.out, streams.err)

    return run


@pytest.fixture
def catalogue_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace the catalogue's records and the simulated launch by fakes."""

    def replace(*records: fakes.FakeRecord) -> None:
        monkeypatch.setattr("tilewright.multiply.kernels.catalogue.records", lambda: tuple(records))
        monkeypatch.setattr("tilewright.multiply.backends.cpu.host_kernels.run", fakes.run_on_host)
        monkeypatch.setattr("tilewright.simt.launch", fakes.launch, raising=False)
        monkeypatch.setattr("tilewright.profiling.of_run", fakes.of_run)

    return replace


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Dask cluster of two workers of one thread each, in separate processes."""
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
            host="127.0.0.1", local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as found,
        distributed.Client(found, set_as_default=False),
    ):  # fmt: skip
        yield found


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Call it to multiply with AVX2 alone: kernels are chosen and compiled for a host without AVX-512."""
    from tilewright.ground.native.compiler import Compiler, compiler
    from tilewright.multiply.backends.cpu import choice, kernels, product

    def forget() -> None:
        for cache in (kernels.kernel, product.product, product._product):
            cache.cache_clear()

    def force() -> None:
        if "+avx2" not in compiler().features:
            pytest.skip("this processor has no AVX2")
        made = Compiler(compiler().features.replace("+avx512", "-avx512").replace("+amx", "-amx"))
        for module in (choice, kernels):
            monkeypatch.setattr(module, "compiler", lambda: made)
        forget()

    yield force
    forget()
