import pytest

from tilewright.errors import ArgumentValueError
from tilewright.machine.gpu import gpu
from tilewright.machine.roofline import roofline


def test_below_and_above_the_ridge():
    h100 = gpu("h100")
    low, high = roofline(h100, intensity=1.0), roofline(h100, intensity=1000.0)
    assert (low.bound, low.gflops) == ("memory", 3350.0)
    assert (high.bound, high.gflops) == ("arithmetic", h100.peak_gflops())
    at = roofline(h100, intensity=low.ridge)
    assert at.gflops == pytest.approx(low.ridge * 3350)
    assert roofline(h100, intensity=1000.0, dtype="float64").gflops == high.gflops / 2


def test_negative_intensity():
    with pytest.raises(ArgumentValueError, match=r"`intensity` must not be negative \(got -1\)"):
        roofline(gpu("h100"), intensity=-1)
