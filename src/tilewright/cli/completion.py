"""What a shell completes after an option: `tilewright --install-completion` sets it up. Typer keeps what fits."""

from __future__ import annotations


def gpus() -> list[str]:
    """Names of GPUs."""
    from tilewright import machine

    return list(machine.names())


def kernels() -> list[str]:
    """Names of the catalogue."""
    from tilewright.kernels import catalogue

    return [record.name for record in catalogue.records()]


def algebras() -> list[str]:
    """Those that have names."""
    from tilewright.problem.algebra import ALGEBRAS

    return list(ALGEBRAS)


def orders() -> list[str]:
    """Of sums."""
    from tilewright.engine.promotion import ORDERS

    return list(ORDERS)


def formats() -> list[str]:
    """Forms of a report."""
    from tilewright.cli.formats import FORMATS

    return list(FORMATS)


def fail_on() -> list[str]:
    """What `--fail-on` takes."""
    from tilewright.configuration import FAIL_ON

    return list(FAIL_ON)


def devices() -> list[str]:
    """Where GPU kernels run."""
    from tilewright.cli.ladder import DEVICES

    return list(DEVICES)


def bench_devices() -> list[str]:
    """What is measured, and what is predicted."""
    from tilewright.backends.inventory import with_kernels

    return [*(name for name in with_kernels() if name != "simulated"), *gpus()]
