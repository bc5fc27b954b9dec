"""Textures, surfaces and arrays of a program, against NumPy by the programming guide's formulas."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
if shutil.which("g++") is None:
    pytest.skip("not run: the host has no C++ compiler", allow_module_level=True)

W, H, D = 5, 4, 3
WRAP, CLAMP, MIRROR, BORDER = range(4)
LANE = np.arange(32, dtype=np.float32)
NUMBERS = (np.arange(6 * W * H) ** 2 % 97).astype(np.float32)


def along(x, extent, mode, linear, normalized):
    """The two elements that each coordinate mixes, -1 outside, and the share of the second."""
    x = x.astype(np.float32)
    if normalized:
        if mode == WRAP:
            x = x - np.floor(x)
        if mode == MIRROR:
            x = np.abs(x - 2 * np.round(x / 2))
        x = x * np.float32(extent)
    elif mode != BORDER:
        mode = CLAMP
    if linear:
        x = x - np.float32(0.5)
    first = np.floor(x).astype(int)
    share = np.floor((x - first) * 256 + 0.5) / 256 if linear else np.zeros(len(x))
    found = []
    for number in (first, first + 1):
        kept = number % extent if mode == WRAP else np.clip(number, 0, extent - 1)
        found.append(np.where((mode == BORDER) & (number != kept), -1, kept))
    return found, share


def read(array, coordinates, mode, linear, normalized):
    """Elements of an array, the last axis x, at coordinates x, y, z."""
    sides = [along(x, n, mode, linear, normalized) for x, n in zip(coordinates, array.shape[::-1], strict=True)]
    padded = np.pad(array, [(0, 1)] * array.ndim)  # -1 is the border
    total = np.zeros(32)
    for corner in np.ndindex(*[1 + linear] * len(sides)):
        weight, place = np.ones(32), []
        for side, (elements, share) in zip(corner, sides, strict=True):
            weight = weight * (share if side else 1 - share)
            place.append(elements[side])
        total += weight * padded[tuple(place[::-1])]
    return total


def cube():
    faces, found = NUMBERS[:96].reshape(6, 4, 4), []
    for i in LANE:
        x, y, z = np.cos(i), np.sin(2 * i), np.cos(3 * i + 1)
        size, face, s, t = max(
            (abs(x), 0 if x > 0 else 1, -z if x > 0 else z, -y), (abs(y), 2 if y > 0 else 3, x, z if y > 0 else -z),
            (abs(z), 4 if z > 0 else 5, x if z > 0 else -x, -y),
        )  # fmt: skip
        at = [min(int((c / size + 1) / 2 * 4), 3) for c in (s, t)]
        found.append(faces[face, at[1], at[0]])
    return found


def expected():
    flat = NUMBERS[: W * H].reshape(H, W)
    x, y = LANE * np.float32(0.113) - np.float32(0.7), LANE * np.float32(0.071) - np.float32(0.6)
    for mode in range(4):
        for linear in (False, True):
            for normalized in (False, True):
                at = (x, y) if normalized else (x * W, y * H)
                yield read(flat, at, mode, linear, normalized)
    solid = NUMBERS[: W * H * D].reshape(D, H, W)
    at = [LANE * np.float32(a) - np.float32(b) for a, b in ((0.19, 0.4), (0.14, 0.2), (0.11, 0.3))]
    yield read(solid, at, CLAMP, True, False)
    n = np.arange(W * H)
    channels = np.stack([n * 7, n * 11, np.full(W * H, 255), n]) % 256 / 255
    planes = [read(c.reshape(H, W), (LANE * np.float32(0.15), 0 * LANE + 1.3), CLAMP, True, False) for c in channels]
    yield sum(10**k * plane for k, plane in enumerate(planes))
    t = np.arange(32)
    yield solid[np.minimum(t // 5, D - 1), 2, t % 5]
    yield cube()
    yield [50 - 9 * k if 0 <= k < 20 else 0 for k in t - 2]
    x, y = t % 4 + 1, np.floor(t // 4 * np.float32(0.4) + 0.5).astype(int)
    y1, x1 = np.minimum(y + 1, H - 1), np.minimum(x, W - 1)
    y, x = np.minimum(y, H - 1), x - 1
    yield flat[y1, x] + 100 * flat[y1, x1] + 10000.0 * flat[y, x1] + 1000000.0 * flat[y, x]
    stored = flat.copy()
    stored[1, 3:] = 100, 101
    x, y = t % 8 - 1, t // 8 - 1
    inside = (x >= 0) & (x < W) & (y >= 0)
    clamped = stored[np.clip(y, 0, H - 1), np.clip(x, 0, W - 1)]
    yield clamped * inside * 1000 + clamped


def test_textures_surfaces_and_arrays_are_those_of_the_programming_guide():
    command = [sys.executable, "-m", "tilewright", "run", Path(__file__).with_name("textures.cu")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = ran.stdout.splitlines()
    numbers, said = lines[:-7], lines[-7:]
    found = [np.array(line.split()[1:], float) for line in numbers]
    names = [line.split()[0] for line in numbers]
    assert names == ["plane"] * 16 + "box colours layers cube words four surface".split(), ran.stderr
    for number, (got, want) in enumerate(zip(found, expected(), strict=True)):
        assert np.allclose(got, want, rtol=1e-5, atol=1e-4), (names[number], number, got, want)
    refused = [f"cudaError{name}" for name in "InvalidValue InvalidChannelDescriptor NotSupported".split()]
    assert said == ["row 25 100 101", *refused, "cudaErrorInvalidFilterSetting", "none", "cudaErrorIllegalAddress"]
    assert "linear filtering needs elements that are floats" in ran.stderr
    assert "sRGB is not implemented" in ran.stderr
    assert "outside: out of bounds global load of 4 bytes" in ran.stderr
    assert "textures.cu:41" in ran.stderr
