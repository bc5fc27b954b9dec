"""Processor time of one small operation of torch, on the simulated device `cuda` and on the CPU.

    python benchmarks/torch_operations.py [--json]

Each figure is microseconds of an operation with all threads: the median of rounds, with the least and the most. Run it
with two commits in turns, because others use this machine too. `x` and `y` have 64 floats, the matrices 16 x 16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from measuring import Spread, arguments, publish, table

import tilewright as tw

_WARM, _CALLS = 50, 200


def operations(device: str) -> dict[str, Callable[[], Any]]:
    """The operations, on one device."""
    x, y, a, b = (torch.rand(shape, device=device) for shape in ((64,), (64,), (16, 16), (16, 16)))
    wide, total = torch.rand((64, 64), device=device), torch.zeros(64, device=device)
    weight = torch.rand((16, 16), device=device, requires_grad=True)
    layer = torch.nn.Linear(16, 16, device=device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    layer(a).sum().backward()

    def trained() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(a), b).backward()
        optimizer.step()

    return {
        "x + y": lambda: x + y,
        "x * 2": lambda: x * 2,
        "relu(x)": lambda: torch.relu(x),
        "x.sum()": x.sum,
        "a @ b": lambda: a @ b,
        "x.zero_()": x.zero_,
        "total += x": lambda: total.add_(x),
        "torch.add(x, y, out=total)": lambda: torch.add(x, y, out=total),
        "a view: x.view(8, 8)": lambda: x.view(8, 8),
        "a view: wide[3]": lambda: wide[3],
        "x.shape": lambda: x.shape,
        "torch.empty(64)": lambda: torch.empty(64, device=device),
        "torch.zeros(64)": lambda: torch.zeros(64, device=device),
        "x.item() of a sum": lambda: x.sum().item(),
        "(a @ weight).sum().backward()": lambda: (a @ weight).sum().backward(),
        "optimizer.step()": optimizer.step,
        "a step of training": trained,
    }


def spread(call: Callable[[], Any], rounds: int) -> Spread:
    """Microseconds of processor time of a call."""
    for _ in range(_WARM):
        call()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(_CALLS):
            call()
        found.append(1e6 * (time.process_time() - start) / _CALLS)
    return Spread.of(found)


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    host = {name: spread(call, given.rounds) for name, call in operations("cpu").items()}
    with tw.simulated_gpu():
        there = {name: spread(call, given.rounds) for name, call in operations("cuda").items()}
    rows = [(name, one.text(), host[name].text()) for name, one in there.items()]
    shown = table("Microseconds of processor time of an operation", ("operation", "cuda", "cpu"), rows)
    publish({"cuda": there, "cpu": host}, [shown], as_json=given.json, packages=["torch"])


if __name__ == "__main__":
    main()
