"""Values that a shell completes after an option: `tilewright --install-completion` sets it up. Typer filters them."""

from __future__ import annotations


def gpus() -> list[str]:
    """Names of GPUs."""
    from tilewright import machine

    return list(machine.names())


def kernels() -> list[str]:
    """Names of the catalogue's kernels."""
    from tilewright.kernels import catalogue

    return [record.name for record in catalogue.records()]


def algebras() -> list[str]:
    """Names of the algebras."""
    from tilewright.problem.algebra import ALGEBRAS

    return list(ALGEBRAS)


def orders() -> list[str]:
    """Orders of sums."""
    from tilewright.engine.promotion import ORDERS

    return list(ORDERS)


def formats() -> list[str]:
    """Formats of a report."""
    from tilewright.cli.formats import FORMATS

    return list(FORMATS)


def fail_on() -> list[str]:
    """Values of `--fail-on`."""
    from tilewright.configuration import FAIL_ON

    return list(FAIL_ON)


def devices() -> list[str]:
    """Devices of this machine."""
    from tilewright.backends.inventory import BACKENDS

    return [row.name for row in BACKENDS]


def dtypes() -> list[str]:
    """Names of dtypes."""
    from tilewright.problem.dtypes import NAMES

    return sorted(NAMES)
