"""NVRTC's PTX on disk: compiled once, and again when an input changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.simulate.programs import nvrtc
from tilewright.simulate.programs.nvrtc import compile_cuda

SOURCE = """#include "first.h"
#if 0
#include "second.h"
#endif
extern "C" __global__ void k(float *x) { x[0] = VALUE; }
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The entries that NVRTC compiled; the cache starts empty."""
    compiled: list[str] = []
    compile_ = nvrtc._compiled

    def counted(source: str, entry: str, *rest: object) -> tuple[str, str]:
        compiled.append(entry)
        return compile_(source, entry, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc, "_compiled", counted)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return compiled


def compiled(folder: Path, *options: str, source: str = SOURCE, lineinfo: bool = False) -> str:
    return compile_cuda(source, "k", (9, 0), options, str(folder / "k.cu"), lineinfo=lineinfo)[0]


def test_a_program_is_compiled_once(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "first.h").write_text("#define VALUE 1.0f\n")
    first = compiled(tmp_path)
    assert compiled(tmp_path) == first and "k" in first
    assert made == ["k"]
    templated = "template <int N> __global__ void t(int *x) { x[0] = N; }"
    names = [compile_cuda(templated, f"t<{n}>", (9, 0), (), "t.cu", lineinfo=False)[1] for n in (1, 2, 1, 2)]
    assert names[:2] == names[2:] and names[0] != names[1]
    assert made == ["k", "t<1>", "t<2>"]


@pytest.mark.parametrize(
    "change", ["text", "option", "capability", "lines", "header", "nested", "other side", "nearer"]
)
def test_every_input_counts(made: list[str], tmp_path: Path, change: str) -> None:
    folder, further = tmp_path / "near", tmp_path / "far"
    folder.mkdir()
    further.mkdir()
    (further / "first.h").write_text('#include "third.h"\n#define VALUE THIRD\n')
    (further / "third.h").write_text("#define THIRD 1.0f\n")
    (further / "second.h").write_text("")
    option = f"-I{further}"
    first = compiled(folder, option)
    assert compiled(folder, option) == first and made == ["k"]
    if change == "text":
        compiled(folder, option, source=SOURCE + "// more\n")
    elif change == "option":
        compiled(folder, option, "--use_fast_math")
    elif change == "capability":
        compile_cuda(SOURCE, "k", (8, 0), (option,), str(folder / "k.cu"), lineinfo=False)
    elif change == "lines":
        compiled(folder, option, lineinfo=True)
    elif change == "header":
        (further / "first.h").write_text("#define VALUE 2.0f\n")
        assert compiled(folder, option) != first
    elif change == "nested":
        (further / "third.h").write_text("#define THIRD 2.0f\n")
        assert compiled(folder, option) != first
    elif change == "other side":  # now nothing reads it
        (further / "second.h").write_text("#define SECOND\n")
        assert compiled(folder, option) == first
    else:  # a header that the search finds before the old one
        (folder / "first.h").write_text("#define VALUE 3.0f\n")
        assert compiled(folder, option) != first
    assert made == ["k", "k"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("#define NAME <cuda_fp16.h>\n#include NAME\n", ()),
        ('#if __has_include("first.h")\n#endif\n', ()),
        ("#/* */include <cuda_fp16.h>\n", ()),
        ("#\\\ninclude <cuda_fp16.h>\n", ()),
        ("%:include <cuda_fp16.h>\n", ()),
        ("// __TIME__\n", ()),
        ("#in\\\nclude <cuda_fp16.h>\n", ()),
        ("#include_next <cuda_fp16.h>\n", ()),
        ("", ("--pre-include=cuda_fp16.h",)),
        ("", ("-I .",)),
        ("", ("-I=.",)),
    ],
)
def test_a_program_with_unknown_inputs_is_compiled_each_time(
    made: list[str], tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    source = text + 'extern "C" __global__ void k(float *x) { x[0] = 1; }'
    for _ in range(2):
        compiled(tmp_path, *options, source=source)
    assert made == ["k", "k"]


@pytest.mark.parametrize("ahead", ["/**/ ", "\f"])
def test_a_header_counts_whatever_is_before_its_include(made: list[str], tmp_path: Path, ahead: str) -> None:
    for value in (10, 20):
        (tmp_path / "first.h").write_text(f"#define VALUE {value}.0f\n")
        text = compiled(tmp_path, source=ahead + SOURCE)
    assert "1101004800" in text  # the bits of 20
    assert made == ["k", "k"]


def test_headers_may_include_each_other_through_other_folders(made: list[str], tmp_path: Path) -> None:
    for folder, other in (("a", "b"), ("b", "a")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.h").write_text(f'#pragma once\n#include "../{other}/{other}.h"\n')
    (tmp_path / "first.h").write_text('#include "a/a.h"\n#define VALUE 1.0f\n')
    compiled(tmp_path)
    compiled(tmp_path)
    assert made == ["k"]


@pytest.mark.parametrize("name", ["x" * 300, "a\0/b"], ids=["too long", "a zero byte"])
def test_nvrtc_says_that_a_header_s_name_is_invalid(made: list[str], tmp_path: Path, name: str) -> None:
    with pytest.raises(nvrtc.CompileError, match=r"k.cu:1: NVRTC could not compile"):
        compiled(tmp_path, source=SOURCE.replace("first", name))


def test_a_header_that_changes_during_the_making_makes_no_entry(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "first.h"
    header.write_text("#define VALUE 1.0f\n")
    compile_ = nvrtc._compiled

    def changed(*arguments: object) -> tuple[str, str]:
        header.write_text("#define VALUE 10.0f\n")
        return compile_(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as context:
        context.setattr(nvrtc, "_compiled", changed)
        compiled(tmp_path)
    header.write_text("#define VALUE 1.0f\n")
    assert "1065353216" in compiled(tmp_path)  # the bits of 1


def test_a_header_of_cuda_counts_by_its_folder(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "cuda"
    (own / "below").mkdir(parents=True)
    (own / "below" / "own.h").write_text("#define VALUE 1.0f\n")
    monkeypatch.setattr(nvrtc, "_headers", lambda: ([os.fspath(own)], []))
    source = SOURCE.replace("first.h", "below/own.h")
    compiled(tmp_path, source=source)
    compiled(tmp_path, source=source)
    assert made == ["k"]
    nvrtc.nvrtc_cache.contents.cache_clear()  # another process
    (own / "below" / "own.h").write_text("#define VALUE 10.0f\n")
    assert "1092616192" in compiled(tmp_path, source=source)  # the bits of 10
    assert made == ["k", "k"]


def test_errors_are_no_entries(made: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(nvrtc.CompileError, match=r"first\.h"):
            compiled(tmp_path)
    (tmp_path / "first.h").write_text("#define VALUE 1.0f\n")
    compiled(tmp_path)
    assert made == ["k"] * 3
