"""Random numbers of the device: generators of its own, which compute as the CPU's do.

The host's numbers are those that a program gets beside a GPU: numbers that the device draws do not change them.

Source: PyTorch, "Reproducibility"; `torch/cuda/random.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tilewright.frontends.torch.devices import CUDA


class Generator(torch.Generator):  # type: ignore[misc]
    """A CPU generator that reports the device that it was made for."""

    def __new__(cls, device: Any = "cpu") -> Generator:  # noqa: D102
        made: Generator = super().__new__(cls, "cpu")
        made.made_for = CUDA if torch.device(device).type == "cuda" else torch.device("cpu")
        return made

    @property
    def device(self) -> torch.device:
        """Its device."""
        return self.made_for


def of_device() -> Generator:
    """The default generator of a simulated GPU."""
    made = Generator("cuda")
    made.manual_seed(torch.initial_seed())
    return made


def functions(own: Generator) -> dict[str, Any]:
    """The names of `torch.cuda` for random numbers, which `torch.cuda.random` has too.

    Each is an object of its own: `torch._dynamo` refuses one function under two names of torch.
    """
    return {
        "manual_seed": functools.partial(own.manual_seed),
        "manual_seed_all": functools.partial(own.manual_seed),
        "get_rng_state": lambda device="cuda": own.get_state(),
        "set_rng_state": lambda new_state, device="cuda": own.set_state(new_state),
        "initial_seed": functools.partial(own.initial_seed),
        "seed": functools.partial(own.seed),
        "seed_all": functools.partial(own.seed),
        "get_rng_state_all": lambda: [own.get_state()],
        "set_rng_state_all": lambda new_states: own.set_state(new_states[0]),
    }


def require_of(device: torch.device, generator: Any) -> None:
    """Reject a generator of another device than that of the numbers.

    Raises RuntimeError, as torch does.
    """
    if generator is not None and generator.device.type != device.type:
        found = generator.device.type
        raise RuntimeError(f"Expected a '{device.type}' device type for generator but found '{found}'")


@contextmanager
def drawing(given: Iterable[Any]) -> Iterator[None]:
    """Let an operation on the device draw from the device's generator, unless its arguments have another one."""
    if any(isinstance(one, torch._C.Generator) for one in given):
        yield
        return
    host, own = torch.default_generator, torch.cuda.default_generators[0]
    before = host.get_state()
    host.set_state(own.get_state())
    try:
        yield
    finally:
        own.set_state(host.get_state())
        host.set_state(before)
