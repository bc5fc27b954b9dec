"""A wrong name: the error lists every right one and asks for the one that is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import MissingFileError, TilewrightError, near
from tilewright.multiply.problem.algebra import ALGEBRAS
from tilewright.multiply.problem.dtypes import COMPOSED, DTYPES

ONE = np.ones((2, 2), np.float32)
EVERY = {
    "dtype": [record.name for record in (*DTYPES, *COMPOSED)],
    "algebra": ["plus-times", *ALGEBRAS],
    "order": ["canonical", "tf32x3", "fast"],
    "casting": ["no", "equiv", "safe", "same_kind", "unsafe"],
}


@pytest.mark.parametrize(
    ("option", "got", "meant"),
    [
        ("dtype", "fp16", "float16"),
        ("dtype", "bf16", "bfloat16"),
        ("dtype", "FP64", "float64"),
        ("dtype", "u16x", "uint16"),
        ("dtype", "e5m2", "float8_e5m2"),
        ("dtype", "flaot32", "float32"),
        ("dtype", "complx64", "complex64"),
        ("algebra", "minplus", "min-plus"),
        ("algebra", "Max_Times", "max-times"),
        ("order", "canonicl", "canonical"),
        ("casting", "same-kind", "same_kind"),
    ],
)
def test_an_option_of_a_product(option: str, got: str, meant: str) -> None:
    with pytest.raises(TilewrightError) as wrong:
        tw.matmul(ONE, ONE, **{option: got})
    rule, question = str(wrong.value).split("; ")
    assert question == f"did you mean {meant}?"
    assert rule == f"`{option}` must be one of {', '.join(EVERY[option])} (got {got!r})"


@pytest.mark.parametrize("got", ["colour", "x"])
def test_nothing_is_asked_where_nothing_is_similar(got: str) -> None:
    with pytest.raises(TilewrightError, match=rf"\(got '{got}'\); or make a tw.Algebra$"):
        tw.matmul(ONE, ONE, algebra=got)
    assert near(got, ["float32"]) == ""


@pytest.mark.parametrize(
    ("name", "meant"), [("dot", "matmul"), ("matmull", "matmul"), ("gemm", "matmul"), ("Check", "check")]
)
def test_a_name_of_the_package(name: str, meant: str) -> None:
    with pytest.raises(AttributeError) as wrong:
        getattr(tw, name)
    assert f"no attribute {name!r}; did you mean {meant}? (public names: {', '.join(tw.__all__)})" in str(wrong.value)


def test_a_text_that_is_no_file_of_arrays() -> None:
    with pytest.raises(ValueError, match=r"by its suffix: .* \(got 'a.csv'\); read another with NumPy, and pass the"):
        tw.matmul("a.csv", ONE)
    with pytest.raises(ValueError, match=r"`out` must .* \(got 'c.csv'\); name another;"):
        tw.matmul(ONE, ONE, out="c.csv")


@pytest.mark.parametrize(
    ("suffix", "use"),
    [
        ("npy", lambda path: tw.matmul(path, ONE)),
        ("zarr", lambda path: tw.matmul(ONE, path)),
        ("h5", lambda path: tw.matmul(path, ONE)),
        ("hdf5", lambda path: tw.matmul(f"{path}:/a", ONE)),
        ("json", tw.machine.gpu),
        ("cu", lambda path: tw.programs.Program.from_cuda(Path(path), entry="k")),
        ("ptx", lambda path: tw.programs.Program.from_ptx(Path(path))),
    ],
)
def test_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, use: Callable[[str], Any]
) -> None:
    for package in {"zarr": ["zarr"], "h5": ["h5py"], "hdf5": ["h5py"]}.get(suffix, []):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"weights.{suffix}").touch()
    for got, meant in ((f"wieghts.{suffix}", f"did you mean weights.{suffix}?"), (f"q/x.{suffix}", "is no folder q")):
        with pytest.raises(FileNotFoundError, match=r"must be a file that is there \(got no such file") as wrong:
            use(got)
        assert isinstance(wrong.value, MissingFileError)
        assert str(wrong.value).endswith(meant)
