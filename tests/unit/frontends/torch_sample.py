"""200 cases drawn from torch's own tables of modules, optimisers and operators: device `cuda` against the CPU.

    python torch_sample.py             what passes, is refused by name, fails or is wrong; exit status 1 below 95 %
    python torch_sample.py NAME ...    these cases alone, with their errors
    python torch_sample.py --draw      draw again, by the same seed, and write torch_sample.txt

The tables are those that torch's own tests iterate (`torch.testing._internal`), which need the package expecttest. The
simulated GPU computes operators by the CPU's kernels, so values must agree, and every result must be on the device.
"""

from __future__ import annotations

import functools
import io
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.utils import _pytree

import tilewright as tw

LIST = Path(__file__).with_suffix(".txt")
SEED = 35
#: How many cases of each kind are drawn, and the least share that must pass.
DRAWN = {"module": 60, "saved": 20, "optimizer": 30, "autocast": 20, "operator": 60, "custom": 10}
LEAST = 0.95
#: Words by which Tilewright refuses what it does not do.
_REFUSED = ("simulated GPU", "tilewright", "Tilewright")
_Results = Callable[[str], Any]


def names() -> dict[str, list[str]]:
    """All cases by kind, as `kind/name/variant`."""
    ops = [f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}" for op in op_db]
    plain = [name for name, op in zip(ops, op_db, strict=True) if torch.float32 in op.dtypes]
    modules = [one.name for one in module_db]
    counts = {one.optim_cls.__name__: len(one.optim_inputs_func(device="cpu")) for one in optim_db}
    return {
        "module": [f"{name}/{mode}" for name in modules for mode in ("train", "eval")],
        "saved": [f"{name}/" for name in modules],
        "optimizer": [f"{name}/{at}" for name, count in counts.items() for at in range(count)],
        "autocast": [f"{name}/{kind}" for name in plain for kind in ("float16", "bfloat16")],
        "operator": [f"{name}/{kind}" for name, op in zip(ops, op_db, strict=True) for kind in _kinds(op)],
        "custom": [f"{op.name}/" for op in custom_op_db],
    }


def _kinds(op: Any) -> list[str]:
    kinds = ("float32", "float64", "int64", "bool", "complex64", "float16", "bfloat16")
    return [kind for kind in kinds if getattr(torch, kind) in op.dtypes]


def drawn() -> list[str]:
    """The sample."""
    chance = random.Random(SEED)
    return [f"{kind}/{name}" for kind, known in names().items() for name in chance.sample(known, DRAWN[kind])]


def results_of(case: str) -> _Results:
    """A function that computes a case on a device."""
    kind, name, variant = case.split("/")
    return functools.partial({"saved": _saved, "module": _module}.get(kind, globals()[f"_{kind}"]), name, variant)


def _there(value: Any, device: str) -> Any:
    """A value, or a structure of values, on a device; the tensors are leaves there."""

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        return torch.device(device) if isinstance(x, torch.device) else device if x == "cpu" and type(x) is str else x

    return _pytree.tree_map(one, value)


def _with_gradients(result: Any, leaves: list[Any]) -> list[Any]:
    """The tensors of a result, and the gradients of their sum."""
    found = [x for x in _pytree.tree_leaves(result) if x is not None]
    sums = [x.abs().sum() for x in found if isinstance(x, torch.Tensor) and x.requires_grad and x.numel()]
    needed = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf]
    if not sums or not needed:
        return found
    return [*found, *torch.autograd.grad(sum(sums), needed, allow_unused=True)]


def _modules(name: str, training: bool, device: str) -> Iterator[tuple[Any, Any]]:
    """A module with the arguments of a call, for each of its samples."""
    record = next(one for one in module_db if one.name == name)
    torch.manual_seed(SEED)
    given = record.module_inputs_func(record, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    for sample in given:
        arguments = _there((sample.constructor_input.args, sample.constructor_input.kwargs), "cpu")
        torch.manual_seed(SEED)
        module = record.module_cls(*arguments[0], **arguments[1]).to(torch.float32).train(training).to(device)
        if sample.forward_input is not None:
            yield module, _there((sample.forward_input.args, sample.forward_input.kwargs), device)


def _module(name: str, variant: str, device: str) -> Any:
    found = []
    for module, (args, kwargs) in _modules(name, variant == "train", device):
        torch.manual_seed(SEED)
        leaves = [*_pytree.tree_leaves((args, kwargs)), *module.parameters()]
        found += [_with_gradients(module(*args, **kwargs), leaves), [*module.buffers()]]
    return found


def _saved(name: str, variant: str, device: str) -> Any:
    found = []
    for module, _ in _modules(name, False, device):
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
        assert [type(x) for x in other.parameters()] == [type(x) for x in module.parameters()]
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file))
        found.append([*other.parameters(), *other.buffers()])
    return found


def _optimizer(name: str, variant: str, device: str) -> Any:
    record = next(one for one in optim_db if one.optim_cls.__name__ == name)
    options = record.optim_inputs_func(device="cpu")[int(variant)].kwargs
    torch.manual_seed(SEED)
    layers = [torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)]
    model, x = torch.nn.Sequential(*layers).to(device), torch.randn(8, 5).to(device)
    chosen = [one for one in model.parameters() if one.dim() == 2] if name == "Muon" else [*model.parameters()]
    optimizer = record.optim_cls(chosen, **_there(options, device))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        if name == "SparseAdam":
            for one in chosen:
                one.grad = one.grad.to_sparse()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step(closure)
    states = [one.get(key) for one in optimizer.state.values() for key in sorted(one) if key != "step"]
    return [*model.parameters(), *(x for x in states if isinstance(x, torch.Tensor) and x.dim())]


def _operator(name: str, variant: str, device: str) -> Any:
    op = next(op for op in op_db if name in (op.name, f"{op.name}.{op.variant_test_name}"))
    return _calls(op, variant, device, op)


def _custom(name: str, variant: str, device: str) -> Any:
    op = next(op for op in custom_op_db if op.name == name)
    return _calls(op, "float32", device, op)


def _autocast(name: str, variant: str, device: str) -> Any:
    op = next(op for op in op_db if name in (op.name, f"{op.name}.{op.variant_test_name}"))
    return _calls(torch.autocast(device, dtype=getattr(torch, variant))(op), "float32", device, op)


def _calls(call: Callable[..., Any], kind: str, device: str, op: Any) -> Any:
    """The results of an operator's first samples, with gradients; of memory that nothing wrote, its shape."""
    dtype, most = getattr(torch, kind), 6
    torch.manual_seed(SEED)
    samples = op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype.is_floating_point)
    found = []
    for sample, _ in zip(samples, range(most), strict=False):
        first, args, kwargs = _there((sample.input, sample.args, sample.kwargs), device)
        torch.manual_seed(SEED)
        result = call(first, *args, **kwargs)
        if "empty" in op.name:
            result.detach().zero_()
        found.append(_with_gradients(result, _pytree.tree_leaves((first, args, kwargs))))
    return found


def verdict(case: str, shown: bool = False) -> str:
    """`passes`, `refused`, `fails` or `wrong`; with the reason after a colon."""
    results, wanted, reason = results_of(case), None, None
    try:
        wanted = results("cpu")
    except Exception as error:
        reason = error
    try:
        with tw.simulated_gpu("h100"):
            got = results("cuda")
            if reason is not None:
                return f"wrong: the CPU raises {type(reason).__name__}: {reason}"
            differs = _differs(got, wanted, case.startswith("autocast"))
            return f"wrong: {differs}" if differs else "passes"
    except Exception as error:
        if shown:
            raise
        if reason is not None and type(reason) is type(error):
            return "passes"
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        named = isinstance(error, NotImplementedError | tw.TilewrightError) or any(x in str(error) for x in _REFUSED)
        return f"{'refused' if named else 'fails'}: {text}"


def _differs(got: Any, wanted: Any, lower: bool) -> str:
    """How results differ; "" if they agree. With `lower`, autocast may keep other dtypes on the CPU."""
    ours, theirs = (_pytree.tree_leaves(x) for x in (got, wanted))
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
            return f"{type(one).__name__} for {type(other).__name__}"
        if isinstance(one, torch.Tensor) and not one.is_cuda and other.dim():
            return f"a result of shape {tuple(one.shape)} is on {one.device}"
        if isinstance(one, torch.Tensor):
            try:
                half = torch.float16 in (one.dtype, other.dtype) or torch.bfloat16 in (one.dtype, other.dtype)
                loose: dict[str, Any] = {"rtol": 0.02, "atol": 1e-3} if half else {}
                if lower:
                    loose = {"rtol": 0.1, "atol": 0.1, "check_dtype": False}
                torch.testing.assert_close(one.detach().cpu(), other.detach(), equal_nan=True, **loose)
            except AssertionError as error:
                return " ".join(str(error).split())[:160]
        elif repr(one) != repr(other):
            return f"{str(one)[:70]} for {str(other)[:70]}"
    return ""


def main() -> int:
    """Run the command line; returns the exit status."""
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["--draw"]:
        LIST.write_text("\n".join(drawn()) + "\n", encoding="utf-8")
        return 0
    cases = sys.argv[1:] or LIST.read_text(encoding="utf-8").split()
    count: Counter[str] = Counter()
    for case in cases:
        found = verdict(case, shown=bool(sys.argv[1:]))
        count[found.partition(":")[0]] += 1
        if found != "passes":
            print(f"{case}: {found}", flush=True)
    print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items())), f"of {len(cases)}")
    return int(count["passes"] < LEAST * len(cases) or count["passes"] + count["refused"] < len(cases))


if __name__ == "__main__":
    sys.exit(main())
