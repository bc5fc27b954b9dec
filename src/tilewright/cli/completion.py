"""What a shell completes after an option: `tilewright --install-completion` sets it up."""

from __future__ import annotations


def gpus(incomplete: str) -> list[str]:
    """Names of GPUs."""
    from tilewright import machine

    return [name for name in machine.names() if name.startswith(incomplete)]


def kernels(incomplete: str) -> list[str]:
    """Names of the catalogue."""
    from tilewright.kernels import catalogue

    return [record.name for record in catalogue.records() if record.name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Forms of a report."""
    from tilewright.cli import formats as known

    return [name for name in known.FORMATS if name.startswith(incomplete)]


def fail_on(incomplete: str) -> list[str]:
    """What `--fail-on` takes."""
    from tilewright.configuration import FAIL_ON

    return [name for name in FAIL_ON if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Where GPU kernels run."""
    from tilewright.cli.ladder import DEVICES

    return [name for name in DEVICES if name.startswith(incomplete)]
