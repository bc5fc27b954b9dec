"""Which toolkit compiles, where several are installed, or one is in parts of different releases."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tilewright.errors import CompileError, MissingExtraError
from tilewright.simulate.programs import toolkits
from tilewright.simulate.programs.toolkits import Toolkit

Made = Callable[..., Path]
PARTS = {"nvidia-cuda-nvcc": (13, 5), "nvidia-nvvm": (13, 5), "nvidia-cuda-crt": (13, 5)}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes the folder of a toolkit; none but those that the environment names is installed."""
    for name in ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolkits, "_INSTALLED", "")
    monkeypatch.setattr(toolkits, "_of_pip", lambda: iter(()))
    monkeypatch.setenv("PATH", "/nowhere")
    toolkits._installed.cache_clear()

    def make(name: str, nvcc: str | None, headers: int | None, include: str = "include") -> Path:
        root = tmp_path / name
        (root / "bin").mkdir(parents=True)
        (root / "lib64").mkdir()
        if nvcc:
            (root / "bin" / "nvcc").write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {nvcc}, V{nvcc}.9'\n")
            (root / "bin" / "nvcc").chmod(0o755)
        if headers:
            (root / include).mkdir(parents=True)
            (root / include / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {headers}\n")
        return root

    return make


def of_pip(monkeypatch: pytest.MonkeyPatch, root: Path, packages: Mapping[str, tuple[int, int]]) -> None:
    monkeypatch.setattr(toolkits, "_of_pip", lambda: iter([Toolkit(root, packages)]))
    toolkits._installed.cache_clear()


@pytest.mark.parametrize(
    ("nvcc", "headers", "fit"),
    [
        ("13.5", 13050, 2),
        ("13.0", 13000, 2),
        ("12.9", 12090, 2),
        ("13.5", 13000, 1),
        ("13.0", 13050, 1),
        ("13.0", 12090, 0),
        ("13.5", None, 0),
        (None, 13050, 0),
    ],
)
def test_how_compiler_and_headers_fit(made: Made, nvcc: str | None, headers: int | None, fit: int) -> None:
    toolkit = Toolkit(made("one", nvcc, headers))
    assert toolkit.fit == fit
    assert bool(toolkit.defines) == (fit == 1)
    assert bool(toolkit.remedy) == (fit < 2 and bool(nvcc and headers))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_another_release_compiles_nothing_and_the_error_names_the_command(
    made: Made, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_pip(monkeypatch, made("cu13", "13.5", 13000), PARTS | {part: (13, 0)})
    with pytest.raises(CompileError, match=rf"{part} 13\.0.*pip install 'cuda-toolkit\[cccl,nvcc\]==13\.0\.\*'"):
        toolkits.compiler("This")
    of_pip(monkeypatch, made("same", "13.5", 13050), PARTS)
    assert toolkits.compiler("This").fit == 2


def test_a_toolkit_of_one_release_is_preferred_wherever_it_is(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed, whole = made("cu13", "13.5", 13000), made("whole", "13.2", 13020, "targets/x86_64-linux/include")
    of_pip(monkeypatch, mixed, PARTS)
    assert toolkits.compiler("This").root == mixed
    assert toolkits.with_headers("This").include == mixed / "include"
    monkeypatch.setenv("CUDA_HOME", str(whole))
    assert toolkits.compiler("This").root == whole
    assert toolkits.with_headers("This").include == whole / "targets/x86_64-linux/include"
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{whole / 'bin'}")
    assert toolkits.compiler("This").root == whole
    assert toolkits.compiler("This").libraries == [whole / "lib64"]


def test_headers_for_another_compiler_are_those_of_its_release(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    of_pip(monkeypatch, made("cu13", "13.5", 13050), PARTS)
    older = made("older", None, 13000)
    monkeypatch.setenv("CUDA_PATH", str(older))
    assert toolkits.with_headers("This", (13, 0)).root == older
    assert toolkits.with_headers("This", (13, 5)).headers == (13, 5)
    assert toolkits.with_headers("This", (13, 9)).headers == (13, 5)
    assert toolkits.with_headers("This", (12, 4)).headers == (13, 5)


def test_what_is_missing_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (toolkits.compiler, toolkits.with_headers):
        with pytest.raises(MissingExtraError, match="This needs NVIDIA's"):
            call("This")
    monkeypatch.setenv("CUDA_HOME", str(made("old", "11.8", 11080)))
    with pytest.raises(MissingExtraError, match="compiler nvcc"):
        toolkits.compiler("This")
    monkeypatch.setenv("CUDA_HOME", str(made("bare", "13.5", None)))
    with pytest.raises(MissingExtraError, match="nvidia-cuda-runtime"):
        toolkits.compiler("This")
    with pytest.raises(MissingExtraError, match="its assembler ptxas"):
        toolkits.vendor_program("ptxas", "its assembler", "This")


def test_the_installed_toolkit_has_one_release_and_every_program() -> None:
    pytest.importorskip("numba.cuda", reason="not run: the gpu extra is not installed")
    toolkit = toolkits.compiler("This")
    assert set(toolkit.compilers) == set(PARTS)
    assert toolkit.fit == 2, toolkit.remedy
    for name in ("nvcc", "ptxas", "cicc"):
        assert toolkit.program(name) is not None
    assert [folder.name for folder in toolkit.includes] == ["include", "cccl"]
