"""The version of the package that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tilewright")
except PackageNotFoundError:  # a checkout on PYTHONPATH
    __version__ = "0+checkout"
