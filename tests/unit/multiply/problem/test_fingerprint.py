"""Fingerprints of functions: they tell functions apart without calling them."""

from __future__ import annotations

import functools
import math
import types
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.multiply.problem.fingerprint import fingerprint

SCALE = 0.5
OTHERS = [1.0]


def scaled(x: Any) -> Any:
    return x * SCALE


def twice(x: Any) -> Any:
    return scaled(scaled(x))


def made(offset: Any) -> Any:
    return lambda x: tw.relu(x + offset)


def test_the_same_text_is_the_same_function() -> None:
    def one() -> Any:
        return lambda acc, row: tw.gelu(acc + row, approximate="tanh")

    assert fingerprint(one()) == fingerprint(one()) is not None
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)


def test_values_of_a_closure_count() -> None:
    assert fingerprint(made(1.0)) == fingerprint(made(1.0)) is not None
    assert fingerprint(made(1.0)) != fingerprint(made(2.0))
    assert fingerprint(made(0.0)) != fingerprint(made(-0.0))
    assert fingerprint(made(1)) != fingerprint(made(1.0))
    assert fingerprint(made(float("nan"))) == fingerprint(made(float("nan")))
    assert fingerprint(made(np.float32(1))) != fingerprint(made(np.float64(1)))
    assert fingerprint(made([1.0])) is None
    assert fingerprint(made(np.ones(3))) is None


def test_globals_count_also_those_of_functions_it_calls(monkeypatch: Any) -> None:
    before = fingerprint(twice)
    assert before == fingerprint(twice) is not None
    monkeypatch.setitem(globals(), "SCALE", 0.25)
    assert fingerprint(twice) != before
    assert fingerprint(lambda x: x + OTHERS[0]) is None


def test_attributes_of_modules_count(monkeypatch: Any) -> None:
    settings = types.ModuleType("settings")
    settings.factor = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "settings", settings)
    function = lambda x: x * settings.factor  # noqa: E731
    before = fingerprint(function)
    assert before is not None
    settings.factor = 3.0  # type: ignore[attr-defined]
    assert fingerprint(function) != before
    assert fingerprint(lambda x: x * math.pi) is not None


def test_functions_that_can_change_unseen_have_no_fingerprint(monkeypatch: Any) -> None:
    class Config:
        scale = 2.0

    def attributed(x: Any) -> Any:
        return x * attributed.scale  # type: ignore[attr-defined]

    def imports(x: Any) -> Any:
        import math as other

        return x * other.pi

    monkeypatch.setitem(globals(), "attributed", attributed)
    attributed.scale = 2.0  # type: ignore[attr-defined]
    assert fingerprint(lambda x: x * Config.scale) is None
    assert fingerprint(lambda x: attributed(x) + 1) is None
    assert fingerprint(imports) is None
    assert fingerprint(lambda x: x * globals()["SCALE"]) is None
    assert fingerprint(lambda x: x * eval("SCALE")) is None
    assert fingerprint(lambda x: abs(max(x, float(3)))) is not None


class Holder(float):
    """A number that can change."""


def test_numbers_that_can_change_and_wrapped_functions(monkeypatch: Any) -> None:
    held = Holder(1)
    assert fingerprint(lambda x: x * held) is None
    assert fingerprint(lambda x: x * Holder.factor) is None  # type: ignore[attr-defined]
    own = types.ModuleType("own")
    own.own = own  # type: ignore[attr-defined]
    own.pi = 3.0  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "own", own)
    fingerprint(lambda x: x * own.own.pi)  # ends

    @functools.wraps(tw.relu)
    def mine(x: Any) -> Any:
        return tw.relu(x) * SCALE

    before = fingerprint(mine)
    monkeypatch.setitem(globals(), "SCALE", 0.25)
    assert before is None or fingerprint(mine) != before


def test_defaults_partials_and_inner_functions_count() -> None:
    def default(x: Any, y: float = 1.0, *, z: float = 2.0) -> Any:
        return x * y + z

    before = fingerprint(default)
    default.__kwdefaults__ = {"z": 3.0}
    assert fingerprint(default) != before
    assert fingerprint(functools.partial(default, y=2.0)) != fingerprint(functools.partial(default, y=3.0))
    assert fingerprint(lambda x: [f(x) for f in (lambda y: y + OTHERS[0], abs)]) is None


def test_objects_and_random_numbers_are_not_trusted() -> None:
    class Layer:
        bias = 1.0

        def __call__(self, acc: Any) -> Any:
            return acc + self.bias

    assert fingerprint(Layer()) is None
    assert fingerprint(Layer().__call__) is None
    random = np.random.default_rng(0)
    assert fingerprint(lambda x: x * random.random()) is None


def test_an_epilogue_whose_value_changed_is_traced_again() -> None:
    a = np.ones((2, 2), np.float32)
    for offset in (1.0, 2.0):
        found = tw.matmul(a, a, epilogue=lambda acc, offset=offset: acc + offset)
        assert (found == 2 + offset).all()
        assert (tw.matmul(a, a, epilogue=made(offset)) == 2 + offset).all()
    values = [1.0]
    for values[0] in (1.0, 5.0):
        assert (tw.matmul(a, a, epilogue=lambda acc: acc * values[0]) == 2 * values[0]).all()
