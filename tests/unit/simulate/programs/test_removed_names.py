"""Programs for older CUDA: the compiler's complaint is followed by what replaces the name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tilewright.errors import CompileError, MissingFileError
from tilewright.programs import Program
from tilewright.simulate.programs.removed_names import REPLACEMENTS, advice

pytest.importorskip("numba.cuda", reason="not run: the gpu extra is not installed")

#: A line of an old program -> what its message must name.
OLD = {
    "cudaThreadSynchronize();": "cudaDeviceSynchronize",
    "cudaThreadExit();": "cudaDeviceReset",
    "cudaThreadSetLimit(cudaLimitStackSize, 1024);": "cudaDeviceSetLimit",
    "cudaDeviceProp found; return found.clockRate;": "cudaDevAttrClockRate",
    "cudaDeviceProp *found = nullptr; return found->memoryClockRate;": "cudaDevAttrMemoryClockRate",
    "cudaDeviceProp found; return found.deviceOverlap;": "asyncEngineCount",
    "cudaPointerAttributes found; return found.isManaged;": "cudaMemoryTypeManaged",
    "cudaUnbindTexture(0);": "cudaCreateTextureObject",
    "cudaBindSurfaceToArray(0, 0);": "cudaCreateSurfaceObject",
    "cudaConfigureCall(1, 1);": "cudaLaunchKernel",
    "cudaMemAdvise(nullptr, 1, cudaMemAdviseSetReadMostly, 0);": "cudaMemLocation{cudaMemLocationTypeDevice",
    "cudaMemPrefetchAsync(nullptr, 1, 0, 0);": "cudaMemPrefetchAsync(..., location, 0, stream)",
}
KERNELS = {
    "*p = __shfl_down(*p, 1);": "__shfl_down_sync(0xffffffff, ...)",
    "*p = __shfl_xor(*p, 16);": "__shfl_xor_sync(0xffffffff, ...)",
    "*p = __shfl(*p, 3, 8);": "__shfl_sync(0xffffffff, ...)",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said of a program with a line of each kind."""
    if shutil.which("g++") is None:
        pytest.skip("not run: the host has no C++ compiler")
    from tilewright import machine
    from tilewright.frontends.programs import process, source

    folder = tmp_path_factory.mktemp("old")
    lines = [f"int f{at}() {{ {line} return 0; }}" for at, line in enumerate(OLD)]
    text = "texture<float, 1, cudaReadModeElementType> seen;\n" + "\n".join(lines) + "\nint main() { }\n"
    (folder / "old.cu").write_text(text)
    with pytest.raises(CompileError) as raised:
        source.compiled(folder / "old.cu", machine.gpu("h100"), process.library(), folder)
    return str(raised.value)


def test_a_program_is_told_what_replaces_each_name(refused: str) -> None:
    advised = "\n".join(
        line for line in refused.splitlines() if line.startswith(("CUDA no longer", "cudaMemAdvise and"))
    )
    assert [line for line, due in OLD.items() if due not in advised] == []
    assert "CUDA no longer has `texture`: use a texture object" in advised
    assert advised.count("cudaDeviceProp::clockRate") == 1


@pytest.mark.parametrize("line", KERNELS)
def test_a_kernel_is_told_too(line: str) -> None:
    with pytest.raises(CompileError) as raised:
        Program.from_cuda(f'extern "C" __global__ void k(int *p) {{ {line} }}', "k")
    assert f"use {KERNELS[line]}." in str(raised.value)


def test_other_names_get_no_advice() -> None:
    assert advice('error: identifier "cudaDeviceSynchronise" is undefined') == []
    assert advice('error: class "Mine" has no member "clockRate"') == []
    assert advice("cudaThreadExit is mentioned in a comment") == []


def test_what_replaces_a_name_is_in_today_s_headers() -> None:
    from tilewright.simulate.programs import toolkits

    folder = toolkits.with_headers("This").includes[0]
    text = "".join(path.read_text("utf-8", "replace") for path in folder.glob("*.h"))
    named = {word for replacement in REPLACEMENTS.values() for word in re.findall(r"\bcuda[A-Z]\w+", replacement)}
    assert [word for word in sorted(named) if not re.search(rf"\b{word}\b", text)] == []


def test_a_missing_header_is_named_with_the_option_for_its_folder() -> None:
    with pytest.raises(CompileError, match=r"The header tiles\.h is in no folder .*options=\['-I FOLDER'\]"):
        Program.from_cuda('#include "tiles.h"\nextern "C" __global__ void k() { }', "k")


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    for make in (lambda: Program.from_cuda(tmp_path / "k.cu", "k"), lambda: Program.from_ptx(tmp_path / "k.ptx")):
        with pytest.raises(FileNotFoundError, match=r"k\.\w+ must be a file that is there") as raised:
            make()
        assert isinstance(raised.value, MissingFileError | ValueError)
