"""How many threads a product may use, and how threadpoolctl sees and limits them."""

from __future__ import annotations

from tilewright.ground.native.memo import memo
from tilewright.ground.settings import Settings


class Limit:
    """The number of threads that a product may use if its caller names none."""

    def __init__(self) -> None:
        #: At first the value of TILEWRIGHT_THREADS, or the cores that this process may use; threadpoolctl can change
        #: it.
        self.count = Settings.from_environ().threads

    def set(self, count: int) -> None:
        """Change the limit; at least 1."""
        self.count = max(1, int(count))


@memo
def limit() -> Limit:
    """The limit of the process."""
    show_to_threadpoolctl()
    return Limit()


def show_to_threadpoolctl() -> None:
    """Let threadpoolctl, if installed, see and limit the engine's threads like those of a BLAS.

    threadpoolctl finds thread pools by the shared libraries of the process. The engine's code is in no library, but its
    compiler is, so the compiler's library represents the engine.
    """
    try:
        import threadpoolctl
    except ImportError:
        return

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        user_api = "blas"
        internal_api = "tilewright"
        filename_prefixes = ("libllvmlite", "llvmlite")

        def get_num_threads(self) -> int:
            return limit().count

        def set_num_threads(self, num_threads: int) -> None:
            limit().set(num_threads)

        def get_version(self) -> str:
            from tilewright.version import __version__

            return __version__

        def set_additional_attributes(self) -> None:
            self.architecture = None

    threadpoolctl.register(Controller)
