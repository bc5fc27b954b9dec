"""What stands for packages' benchmarks: the function runs once, and its launches' predicted times are its time.

Of a launch of many blocks some run, which stand for the others; it runs whole only where the program looks at what it
writes (:mod:`tilewright.drivers.left_out`). Where the model refuses a launch, its bound by counted work stands in: the
seconds of the unit that needs most. A line on standard error says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.drivers.current import current_gpu
from tilewright.prediction.programs import REFUSED, Counted, Predictions
from tilewright.prediction.sampling import Care
from tilewright.profiling import Profiles
from tilewright.simt.observer import Launch

#: Blocks that stand for a launch: fewer than of a prediction that somebody asked for, since autotuners compare many.
_QUICK = Care(least_blocks=16, most_part=3 / 4, each=1, compared=2, following=2)


class Timed(Predictions):
    """Predictions of launches that need not run whole."""

    leaves_out = True

    def enough(self, launch: Launch) -> bool:
        """Whether some blocks were counted."""
        return launch.index in self._sampled


class Benchmarks:
    """Times of functions, and what was said about them."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def do_bench(
        self,
        fn: Callable[[], Any],
        warmup: float = 25,
        rep: float = 100,
        grad_to_none: Sequence[Any] | None = None,
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        **_: Any,
    ) -> Any:
        """Triton's: milliseconds of a function; all quantiles are the same."""
        for tensor in grad_to_none or ():
            tensor.grad = None
        time = self.milliseconds("do_bench", fn)
        if quantiles is not None:
            return [time] * len(quantiles)
        return [time] if return_mode == "all" else time

    def benchmark(
        self,
        callable: Callable[..., Any],
        *,
        kernel_arguments: Any = None,
        workspace_generator: Callable[[], Any] | None = None,
        **_: Any,
    ) -> float:
        """CuTe DSL's: microseconds of a function with its arguments, or with those of one workspace.

        Raises ValueError: neither is given.
        """
        given = kernel_arguments if workspace_generator is None else workspace_generator()
        if given is None:
            raise ValueError("`kernel_arguments` or `workspace_generator` must be given (got neither); give one")
        return 1e3 * self.milliseconds("benchmark", lambda: callable(*given.args, **given.kwargs))

    def milliseconds(self, asked: str, fn: Callable[[], Any]) -> float:
        """Of a function: its launches, one after the other.

        NaN where it launches no kernel: what a library itself does on a GPU is not predicted.
        """
        gpu = current_gpu()
        predictions = Timed(gpu=gpu.record.key, sample=_QUICK)
        with gpu.observing(predictions, instead_of=Profiles):
            fn()
        found = [self._of_launch(asked, predictions, one) for one in predictions.counted]
        if not found:
            self._say("", f"{asked}: no kernel is launched, and what libraries do is not predicted; its time is NaN")
        return sum(found) if found else float("nan")

    def _of_launch(self, asked: str, predictions: Predictions, one: Counted) -> float:
        """Of a launch: predicted, or bounded."""
        try:
            return predictions.predicted(one).seconds * 1e3
        except REFUSED as error:
            name = one.launch.name
            self._say(
                name,
                f"{asked}: {name} has no predicted time ({error}); the least that its counted work needs is taken",
            )
            return one.seen.least_seconds * 1e3

    def _say(self, key: str, text: str) -> None:
        """A line on standard error, once for each kernel."""
        if key not in self._said:
            self._said.add(key)
            print(text, file=sys.stderr)
