"""Arrays of other libraries: torch's tensors and their gradients, JAX's arrays, pandas' labels, xarray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError

RNG = np.random.default_rng(19)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# pandas: numpy.matmul is the oracle


@pytest.fixture(scope="module")
def frames() -> dict[str, Any]:
    pd = pytest.importorskip("pandas")
    a = pd.DataFrame(RNG.integers(-9, 9, (2, 3)).astype(float), index=["r", "s"], columns=list("xyz"))
    b = pd.DataFrame(RNG.integers(-9, 9, (3, 2)).astype(float), index=list("zyx"), columns=["u", "v"])
    return {
        "frame": a, "other": b, "same order": b.reindex(list("xyz")), "array": b.to_numpy(),
        "list": b.to_numpy().tolist(),
        "vector": np.arange(3.0), "series": pd.Series([1.0, 2, 3], index=list("yzx"), name="s"),
        "array a": a.to_numpy(), "series a": pd.Series([4.0, 5, 6], index=list("xyz"), name="t"),
        "index": pd.Index([1, 2, 3]), "integers": b.astype("int32"),
    }  # fmt: skip


@pytest.mark.parametrize("a", ["frame", "array a", "vector", "series a"])
@pytest.mark.parametrize("b", ["other", "same order", "array", "list", "vector", "series", "index", "integers"])
def test_pandas_operands_are_labelled_as_numpy_labels_them(frames: dict[str, Any], a: str, b: str) -> None:
    pd = pytest.importorskip("pandas")
    wanted, found = np.matmul(frames[a], frames[b]), tw.matmul(frames[a], frames[b])
    assert type(found) is type(wanted)
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted)
    elif isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted)
    else:
        assert np.array_equal(found, wanted)


def test_labels_that_do_not_match_are_refused(frames: dict[str, Any]) -> None:
    other = frames["other"].rename(index={"x": "q"})
    with pytest.raises(ValueError, match="not aligned"):
        np.matmul(frames["frame"], other)
    with pytest.raises(ArgumentValueError, match=r"not aligned; got x, y, z and z, y, q.*to_numpy"):
        tw.matmul(frames["frame"], other)
    with pytest.raises(ArgumentValueError, match="at most 2 dimensions"):
        tw.matmul(frames["frame"], np.ones((5, 3, 2)))
    with pytest.raises(ArgumentTypeError, match="without labels"):
        tw.matmul(np.ones((2, 3)), np.ones((3, 2)), epilogue=lambda x, s: x + s, epilogue_args=[frames["series"]])


def test_pandas_operands_take_tilewrights_arguments(frames: dict[str, Any]) -> None:
    found = tw.matmul(frames["frame"], frames["other"], dtype="float32", epilogue=tw.relu)
    assert (found.dtypes == np.float32).all()
    assert list(found.index) == ["r", "s"]
    assert np.array_equal(found, np.maximum(np.matmul(frames["frame"], frames["other"]), 0))
    out = np.empty((2, 2))
    assert tw.matmul(frames["frame"], frames["other"], out=out) is out


# xarray


@pytest.fixture(scope="module")
def labelled() -> tuple[Any, Any]:
    xr = pytest.importorskip("xarray")
    rows = {"i": [1, 2, 3], "k": list("wxyz"), "of_rows": ("i", list("abc")), "of_both": (("i", "k"), normal(3, 4))}
    a = xr.DataArray(normal(3, 4), rows, ["i", "k"], name="x")
    b = xr.DataArray(normal(2, 4, 5), {"t": [7, 8], "j": range(5), "s": 5}, ["t", "k", "j"], name="x")
    return a, b


def test_xarray_keeps_dimensions_and_coordinates_that_are_not_summed_over(labelled: tuple[Any, Any]) -> None:
    a, b = labelled
    found = tw.matmul(a, b)
    assert (type(found), found.dims, found.name) == (type(a), ("t", "i", "j"), "x")
    assert np.array_equal(found.values, tw.matmul(a.values, b.values))
    kept = {"i": a, "of_rows": a, "t": b, "j": b, "s": b}
    assert set(found.coords) == set(kept)
    assert all(found.coords[name].variable.equals(x.coords[name].variable) for name, x in kept.items())
    vector = tw.matmul(a[0].drop_vars(["i", "of_rows"]), b, dtype="float64")
    assert vector.dims == ("t", "j") and vector.dtype == np.float64
    assert tw.matmul(a.rename("y"), b).name is None
    assert tw.matmul(b[0, :, 0].drop_vars(list("tj")), b[0, :, 0].drop_vars(list("tj"))).dims == ()


def test_xarray_stays_lazy_over_dask(labelled: tuple[Any, Any]) -> None:
    a, b = labelled
    da = pytest.importorskip("dask.array")
    found = tw.matmul(a.chunk(2), b.chunk({"k": 3}))
    assert isinstance(found.data, da.Array)
    assert found.compute().identical(tw.matmul(a, b))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda a, b: (a, b.rename(k="l")), {}, r"the name of the last but one .*got k and l"),
        (lambda a, b: (a, b[0].rename(j="i")), {}, "got i twice"),
        (lambda a, b: (a.expand_dims(u=2), b), {}, "before the matrices"),
        (lambda a, b: (a, b.assign_coords(k=list("wxya"))), {}, "same coordinate k"),
        (lambda a, b: (a, b.assign_coords(s=1).rename(s="of_rows")), {}, "same coordinate of_rows"),
        (lambda a, b: (a, b.values), {}, "`b` must be an xarray DataArray"),
        (lambda a, b: (a, b), {"axes": [(-2, -1)] * 3}, "`axes` must be left out"),
        (lambda a, b: (a, b), {"out": np.empty((2, 3, 5))}, "`out` must be left out"),
        (lambda a, b: (a[0, 0], b), {}, "scalar"),
    ],
    ids=["inner", "twice", "batch", "inner-labels", "coordinate", "array", "axes", "out", "scalar"],
)
def test_xarray_operands_that_do_not_match_are_refused(
    labelled: tuple[Any, Any], change: Any, options: Any, said: str
) -> None:
    a, b = change(*labelled)
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=said):
        tw.matmul(a, b, **options)


def test_xarray_is_no_argument_of_an_epilogue(labelled: tuple[Any, Any]) -> None:
    a, b = labelled
    with pytest.raises(ArgumentTypeError, match=r"pass .*\.values"):
        tw.matmul(a.values, b.values, epilogue=lambda total, x: total + x, epilogue_args=[b[0, 0]])


# JAX


def test_jax_arrays_come_back_as_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    a = jax.numpy.asarray(normal(3, 4))
    for b in (a.T, np.asarray(a).T):
        found = tw.matmul(a, b)
        assert isinstance(found, jax.Array)
        assert np.array_equal(found, tw.matmul(np.asarray(a), np.asarray(b)))
    assert isinstance(tw.matmul(np.asarray(a), a[0]), jax.Array)
    assert tw.matmul(a[0], a[0]).shape == ()
    assert np.array_equal(tw.matmul(a, a.T, epilogue=lambda x, c: x + c, epilogue_args=[a[0, 0]]), found + a[0, 0])
    assert tw.matmul(a.astype("bfloat16"), a.T.astype("bfloat16")).dtype.name == "bfloat16"
    with pytest.raises(ArgumentTypeError, match="pure_callback"):
        jax.jit(lambda x: tw.matmul(x, x.T))(a)
    shape = jax.ShapeDtypeStruct((3, 3), np.float32)
    assert np.array_equal(jax.jit(lambda x: jax.pure_callback(tw.matmul, shape, x, x.T))(a), tw.matmul(a, a.T))


# torch


def test_torch_tensors_share_their_memory() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        a = torch.arange(12).reshape(3, 4).to(dtype)
        found = tw.matmul(a, a.T)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == dtype
        assert (found == a @ a.T).all()
        out = torch.zeros((3, 3), dtype=dtype)
        assert tw.matmul(a, a.T, out=out) is out
        assert (out == found).all()
    assert isinstance(tw.matmul(a.numpy(), a.T), torch.Tensor)
    assert tw.matmul(a[0], a[0]).shape == ()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "to_mkldnn"])
def test_tensors_of_other_layouts_are_refused_by_name(layout: str) -> None:
    torch = pytest.importorskip("torch")
    a = torch.eye(3)
    for given, name in (((getattr(a, layout)(), a), "a"), ((a, getattr(a, layout)()), "b")):
        with pytest.raises(ArgumentTypeError, match=f"`{name}` must be a tensor that NumPy can see"):
            tw.matmul(*given)


def test_torch_dtypes_name_dtypes() -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones((2, 2), dtype=torch.int8)
    for dtype in (torch.int32, torch.float64, torch.bfloat16, torch.float16, torch.complex64):
        assert tw.matmul(a, a, dtype=dtype).dtype == dtype
    assert tw.matmul(np.ones((2, 2)), np.ones((2, 2)), dtype=torch.float32).dtype == np.float32
    assert tw.plan((2, 2), (2, 2), torch.bfloat16, acc_dtype=torch.float64).acc_dtype == np.float64
    small = torch.tensor([[1.5, 2.0], [-0.5, 3.0]]).to(torch.float8_e4m3fn)
    assert (tw.matmul(small, small) == small.float() @ small.float()).all()


def test_lazily_conjugated_and_negated_tensors_are_multiplied() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(3, 4, dtype=torch.complex64)
    for x in (a.conj(), a.mH.mT, a.conj().imag * 1j, torch._neg_view(a)):
        assert (tw.matmul(x, a.T) == tw.matmul(x.resolve_conj().resolve_neg().clone(), a.T)).all()
    with pytest.raises(ArgumentValueError, match="lazy conjugate"):
        tw.matmul(a, a.T, out=torch.zeros((3, 3), dtype=torch.complex64).conj())


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 2)), ((3, 4), (5, 4, 2)),
        ((2, 1, 3, 4), (5, 4, 2)), ((4,), (5, 4, 2)), ((5, 3, 4), (4,)), ((1, 1), (1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_gradients_are_finite_differences(a: tuple[int, ...], b: tuple[int, ...], kind: str) -> None:
    torch = pytest.importorskip("torch")
    made = [torch.randn(shape, dtype=getattr(torch, kind), requires_grad=True) for shape in (a, b)]
    alpha: complex = 0.5 - 2j if kind == "complex128" else -1.5
    assert torch.autograd.gradcheck(lambda x, y: tw.matmul(x, y, alpha=alpha), made)
    assert torch.autograd.gradgradcheck(tw.matmul, made)


def test_gradients_are_torchs_own() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(6, 5, requires_grad=True)
    b = torch.randn(5, 3)
    (tw.matmul(a, b) ** 2).sum().backward()
    wanted = torch.autograd.grad(((a @ b) ** 2).sum(), a)[0]
    torch.testing.assert_close(a.grad, wanted)
    assert tw.matmul(a, b.double()).requires_grad
    assert torch.autograd.grad(tw.matmul(a, b.double()).sum(), a)[0].dtype == torch.float32
    assert isinstance(tw.matmul(a, b.numpy()), torch.Tensor)
    weight = torch.nn.Parameter(torch.randn(5, 3))
    assert tw.matmul(torch.randn(2, 5), weight).requires_grad
    with torch.no_grad():
        assert not tw.matmul(a.detach(), b).requires_grad
        assert not tw.matmul(a, b).requires_grad
    assert torch.func.grad(lambda x: tw.matmul(x, b).sum())(a.detach()).shape == a.shape


@pytest.mark.parametrize("asked", [{"epilogue": tw.relu}, {"algebra": "min-plus"}, {"axes": [(-2, -1)] * 3}])
def test_arguments_without_a_gradient_are_refused(asked: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(4, 4, requires_grad=True)
    with pytest.raises(ArgumentTypeError, match=f"`{next(iter(asked))}` must be left out .* gradient"):
        tw.matmul(a, a, **asked)
    with pytest.raises(ArgumentTypeError, match="`out` must be left out"):
        tw.matmul(a, a, out=torch.empty(4, 4))
    assert tw.matmul(a.detach(), a.detach(), **asked).shape == (4, 4)


def test_torchs_functions_are_traced_if_we_have_the_same() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(5, 5)
    plain = tw.matmul(a, a)
    assert (tw.matmul(a, a, epilogue=lambda x: torch.relu(x) + torch.exp(-x)) == tw.relu(plain) + tw.exp(-plain)).all()
    with pytest.raises(ArgumentTypeError, match="torch's softmax"):
        tw.matmul(a, a, epilogue=lambda x: torch.softmax(x, 0))


def test_torchs_activations_and_their_options_are_traced() -> None:
    torch = pytest.importorskip("torch")
    f, a = torch.nn.functional, torch.randn(5, 5)
    plain = tw.matmul(a, a)
    assert (tw.matmul(a, a, epilogue=torch.nn.ReLU()) == tw.relu(plain)).all()
    assert (tw.matmul(a, a, epilogue=f.gelu) == tw.gelu(plain)).all()
    assert (tw.matmul(a, a, epilogue=torch.nn.SiLU()) == tw.silu(plain)).all()
    wanted = tw.gelu(plain, approximate="tanh")
    assert (tw.matmul(a, a, epilogue=lambda x: f.gelu(x, approximate="tanh")) == wanted).all()
    assert (tw.matmul(a, a, epilogue=lambda x: torch.clamp(x, min=0)) == tw.relu(plain)).all()
    with pytest.raises(ArgumentTypeError, match="torch's relu"):
        tw.matmul(a, a, epilogue=torch.nn.ReLU(inplace=True))


@pytest.mark.parametrize(
    ("a", "b", "at"),
    [
        ((4, 6, 7), (7, 5), (0, None)), ((6, 4, 7), (7, 5, 4), (1, 2)), ((4, 7), (4, 7), (0, 0)),
        ((4, 7), (3, 7, 5), (0, None)), ((3, 6, 7), (4, 7), (None, 0)), ((4, 2, 3, 6, 7), (3, 7, 5), (0, None)),
    ],
)  # fmt: skip
def test_torch_func_transforms_products(a: Any, b: Any, at: Any) -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.randn(shape, dtype=torch.float64) for shape in (a, b))
    vmap, same = torch.func.vmap, torch.testing.assert_close
    same(vmap(tw.matmul, in_dims=at)(x, y), vmap(torch.matmul, in_dims=at)(x, y))
    forward = [
        vmap(lambda u, v, m=m: torch.func.jvp(m, (u, v), (u, v))[1], in_dims=at) for m in (tw.matmul, torch.matmul)
    ]
    same(forward[0](x, y), forward[1](x, y))
    backward = [
        vmap(torch.func.grad(lambda u, v, m=m: (m(u, v) ** 2).sum(), argnums=(0, 1)), in_dims=at)
        for m in (tw.matmul, torch.matmul)
    ]
    same(backward[0](x, y), backward[1](x, y))


def test_forward_mode_keeps_its_tangents() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        found = forward.unpack_dual(tw.matmul(forward.make_dual(a, a), b))
        torch.testing.assert_close(found.tangent, a @ b)
        torch.testing.assert_close(found.primal, a @ b)
    with pytest.raises(ArgumentTypeError, match=r"`algebra` must be left out .* torch\.func"):
        torch.func.vmap(lambda x: tw.matmul(x, b, algebra="min-plus"))(torch.stack([a, a]))
    plan = tw.plan((3, 4), (4, 2))
    assert plan(a.requires_grad_(), b).requires_grad


def test_libraries_are_not_mixed() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    with pytest.raises(ArgumentTypeError, match="one of torch and one of jax"):
        tw.matmul(torch.ones(2, 2), jax.numpy.ones((2, 2)))
