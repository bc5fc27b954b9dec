"""Dask's arrays as operands: the product is a lazy Dask array.

Each task computes the chunks that it needs if Dask makes them block by block, for example from a file.
`dask.array.matmul` does the same. So no operand need be in memory as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError, MissingExtraError
from tilewright.ground import installation
from tilewright.multiply.engine import operands as numpy_operands
from tilewright.multiply.engine.chunked import Operand, Product, Segment, segments, steps
from tilewright.multiply.engine.partial import Partial
from tilewright.multiply.engine.request import Request
from tilewright.multiply.engine.shapes import Axes, matrices_at, matrices_last, result_shape

try:
    from dask._task_spec import List, Task, TaskRef, convert_legacy_task
    from dask.blockwise import Blockwise, optimize_blockwise
    from dask.core import flatten
    from dask.highlevelgraph import HighLevelGraph
    from dask.tokenize import tokenize
    from dask.utils import parse_bytes
except ImportError as error:
    raise MissingExtraError(
        f"products of Dask arrays need dask 2025.1 or newer (got {dask.__version__}: {error}); run: "
        f"{installation.extra('cluster')}",
        "cluster",
    ) from None

_Chunks = tuple[tuple[int, ...], ...]


def matmul(a: Any, b: Any, options: Mapping[str, Any], more: Mapping[str, Any], multiply: Callable[..., Any]) -> Any:
    """The product of two operands, at least one a Dask array, in A's chunks of rows and B's chunks of columns.

    `options` are the arguments of :func:`tilewright.matmul` that :class:`Request` holds, `more` the others.

    Raises as :func:`tilewright.matmul`; ArgumentTypeError, ArgumentValueError: lazy products do not take an argument.
    """
    if dask.config.get("array.query-planning"):
        raise ArgumentTypeError(
            "`a` and `b` must be Dask arrays with graphs (got the setting array.query-planning, which makes them "
            "expressions); leave it out"
        )
    asked = Request(**options)
    if more["out"] is not None:
        raise ArgumentTypeError(
            f"`out` must be left out for Dask arrays, or be a path (got {type(more['out']).__name__}); call "
            "dask.array.store(tw.matmul(a, b), out)"
        )
    left, right = _arrays(a, b)
    own = None if more["axes"] is None else Axes.of(more["axes"], left.ndim, right.ndim)
    if own is not None:
        left, right = matrices_last(left, own.a), matrices_last(right, own.b)
    result = _product(left, right, asked)
    return result if own is None else matrices_at(result, own.out)


def _arrays(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands as Dask arrays; NumPy's is cut along k like the other."""
    for x, name in ((a, "a"), (b, "b")):
        if isinstance(x, da.Array):
            _check(x, name)
    if isinstance(a, da.Array) and isinstance(b, da.Array):
        return a, b
    if isinstance(a, da.Array):
        return a, _cut(b, "b", -2, a.chunks[-1] if a.ndim else ())
    return _cut(a, "a", -1, b.chunks[-min(b.ndim, 2)] if b.ndim else ()), b


def _check(x: Any, name: str) -> None:
    if type(x._meta) is not np.ndarray:
        raise ArgumentTypeError(
            f"`{name}` must have NumPy arrays as chunks (got {type(x._meta).__name__}); convert them with "
            f"{name}.map_blocks"
        )
    if any(math.isnan(n) for n in x.shape):
        raise ArgumentValueError(
            f"`{name}` must have chunks of known sizes (got shape {x.shape}); call {name}.compute_chunk_sizes()"
        )


def _cut(value: Any, name: str, axis: int, along: tuple[int, ...]) -> Any:
    """The operand that is not Dask's, in chunks like Dask's along k if extents match; tasks read a mapped file."""
    x = value if isinstance(value, np.memmap) else numpy_operands.array(value, name)
    own: list[Any] = ["auto"] * x.ndim
    axis = max(axis, -x.ndim)
    if x.ndim and sum(along) == x.shape[axis]:
        own[axis] = along
    return da.from_array(x, chunks=tuple(own))


def _product(a: Any, b: Any, asked: Request) -> Any:
    shape = result_shape(a.shape, b.shape)
    partial = Partial.of(a.dtype, b.dtype, shape, asked, ndims=(a.ndim, b.ndim))
    axes = [*range(-a.ndim, -2), *"ik"][-a.ndim :], [*range(-b.ndim, -2), *"lj"][: b.ndim]
    whole = (x.rechunk(tuple(tuple(filter(None, n)) or (0,) for n in x.chunks)) for x in (a, b))
    pairs = (x for pair in zip(whole, axes, strict=True) for x in pair)
    cuts, (a, b) = da.core.unify_chunks(*pairs, warn=False)
    batch = [cuts[n] for n in range(-max(a.ndim, b.ndim), -2)]
    chunks = (*batch, cuts.get("i", (1,)), cuts.get("j", (1,)))
    left, right = _sources(a, b, chunks)
    first, second = (Operand(x.name, x.dtype, x.chunks, is_left=side) for x, side in ((a, True), (b, False)))
    tasks = left.tasks | right.tasks  # one operand may be computed from chunks of the other
    given = left.given(tasks), right.given(tasks)
    held = (x.dtype.itemsize * (sum(map(len, y.values())) >= x.npartitions) for x, y in zip((a, b), given, strict=True))
    cut = _steps(segments(cuts["k"], cuts["l"]), chunks, tuple(held))
    if not partial.splits_k:
        cut = (tuple(itertools.chain(*cut)),)
    shared = Product(first, second, shape, chunks, cut, asked, tasks)
    return _graph(shared, partial, (a, b), set().union(*given))


def _steps(found: list[Segment], chunks: _Chunks, given: tuple[int, int]) -> tuple[tuple[Segment, ...], ...]:
    """The steps of a chunk of C: one if tasks compute A and B; `given` are bytes of an element that is given."""
    batch, rows, columns = math.prod(map(max, chunks[:-2])), max(chunks[-2]), max(chunks[-1])
    if not any(given):
        return (tuple(found),)
    most = parse_bytes(dask.config.get("array.chunk-size")) // 8
    return steps(found, batch * rows * columns, batch * (rows * given[0] + columns * given[1]), most)


class _Source(NamedTuple):
    """The source of an operand's chunks."""

    tasks: dict[Any, Any]  #: Tasks of values that the product's tasks compute themselves.
    needed: dict[str, set[Any]]  #: Keys of the values that must be computed before, by layer of the graph.

    def given(self, tasks: Mapping[Any, Any]) -> dict[str, set[Any]]:
        """The keys to compute before, if `tasks` compute the others."""
        found = {name: keys.difference(tasks) for name, keys in self.needed.items()}
        return {name: keys for name, keys in found.items() if keys}


def _sources(a: Any, b: Any, chunks: _Chunks) -> tuple[_Source, _Source]:
    """The sources of both operands of a C with these chunks."""
    tiles = math.prod(map(len, chunks))
    once = [tiles * n == x.npartitions for x, n in ((a, a.numblocks[-1]), (b, b.numblocks[-min(b.ndim, 2)]))]
    fused = [optimize_blockwise(x.dask, keys=list(flatten(x.__dask_keys__()))) for x in (a, b)]
    if set(fused[0].layers) & set(fused[1].layers):
        once = [all(once)] * 2
    left, right = (_source(x, y, once=z) for x, y, z in zip((a, b), fused, once, strict=True))
    return left, right


def _source(x: Any, graph: HighLevelGraph, *, once: bool) -> _Source:
    """One operand's source, from its graph as Dask fuses it for a product made block by block.

    The product's tasks also compute values that depend on nothing and that only one chunk of C needs. A scheduler with
    idle threads would compute all of these at the start, and hold them in memory.
    """
    layer, layers = graph.layers[x.name], {x.name}
    tasks: dict[Any, Any] = {}
    if isinstance(layer, Blockwise):
        tasks, layers = dict(layer), set(graph.dependencies[x.name])
    needed = {key for task in tasks.values() for key in task.dependencies} if tasks else set(layer)
    by_layer = {name: {key for key in needed if key in graph.layers[name]} for name in layers}
    known = graph.get_all_external_keys() if once else set()
    for name in layers if once else ():
        found = {key: convert_legacy_task(key, graph.layers[name][key], known) for key in by_layer[name]}
        tasks |= {key: task for key, task in found.items() if isinstance(task, Task) and not task.dependencies}
    return _Source(tasks, by_layer)


def _graph(shared: Product, partial: Partial, given: tuple[Any, Any], layers: set[str]) -> Any:
    """The graph's tasks: one for each step of each chunk of C, and one that holds their shared state."""
    token = tokenize(*(x.name for x in given), shared.steps, shared.asked)
    name, sums, product = (f"tw-matmul-{x}{token}" for x in ("", "sums-", "shared-"))
    tasks: dict[Any, Any] = {product: Task(product, _itself, shared)}
    seen = [n for n in range(len(shared.chunks)) if n not in _hidden(shared, given)]
    for at in itertools.product(*(range(len(x)) for x in shared.chunks)):
        before = None
        for step in range(len(shared.steps)):
            last = step == len(shared.steps) - 1
            key = (name, *(at[n] for n in seen)) if last else (sums, *at, step)
            values = List(*(TaskRef(x) for x in shared.given(at, step)))
            tasks[key] = Task(key, _made, TaskRef(product), at, step, before, values)
            before = TaskRef(key)
    graph = HighLevelGraph.merge(*(x.dask for x in given))
    below = _below(graph, layers)
    parts = {x: graph.layers[x] for x in below}, {x: graph.dependencies[x] for x in below}
    graph = HighLevelGraph({**parts[0], name: tasks}, {**parts[1], name: layers})
    chunks = tuple(shared.chunks[n] for n in seen)
    return da.Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), partial.out))


def _below(graph: HighLevelGraph, layers: set[str]) -> set[str]:
    """These layers and all that they depend on; Dask would compute any other layer of the graph too."""
    found, wanted = set(), set(layers)
    while wanted:
        found |= wanted
        wanted = {y for x in wanted for y in graph.dependencies[x]} - found
    return found


def _hidden(shared: Product, given: tuple[Any, Any]) -> set[int]:
    """Axes that C lacks since an operand is a vector."""
    last = len(shared.chunks)
    return {last - 2 + side for side, x in enumerate(given) if x.ndim == 1}


def _itself(shared: Product) -> Product:
    return shared


def _made(shared: Product, at: tuple[int, ...], step: int, before: Any, given: list[Any]) -> Any:
    return shared.made(at, step, before, given)
