"""Output of kernels, against Python's formatting and the host's C library."""

# ruff: noqa: UP031 - percent formats are what is compared

from __future__ import annotations

import ctypes
import random
import struct
import time

import numpy as np
import pytest

from tilewright.errors import LimitError
from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.run import printing
from tilewright.simulate.run.printing import format_text

cuda = pytest.importorskip("numba.cuda")

#: C format, C arguments, Python's text for thread t.
LINES = [
    ("plain 100%%", "", lambda t: "plain 100%"),
    ("%d %i %5d|%-5d|%05d|%+d", "t, -t, t, t, t, t", lambda t: "%d %i %5d|%-5d|%05d|%+d" % (t, -t, t, t, t, t)),
    ("%u %x %X %o %#x", "t * 1000, t * 99u, t * 99u, t * 99u, t + 1",
     lambda t: "%d %x %X %o %#x" % (t * 1000, t * 99, t * 99, t * 99, t + 1)),
    ("%u", "0u - 1u - t", lambda t: str(0xFFFFFFFF - t)),
    ("%lld %llu %llx", "-5000000000LL - t, 18446744073709551615ULL - t, 0xABCDEF0123LL",
     lambda t: f"{-5000000000 - t} {18446744073709551615 - t} {0xABCDEF0123:x}"),
    ("%hd %hhd", "70000 + t, 300 + t", lambda t: f"{70000 + t - 65536} {300 + t - 256}"),
    ("%f %.2f %10.3f|%-9.1f|%e %.3E %g %G", "t * 0.5, t / 3.0, t / 7.0, t * 1.25, t * 1e10, t / 9.0, t * 1e-7, t * 1e9",
     lambda t: "%f %.2f %10.3f|%-9.1f|%e %.3E %g %G" % (
         t * 0.5, t / 3.0, t / 7.0, t * 1.25, t * 1e10, t / 9.0, t * 1e-7, t * 1e9)),
    ("%f", "(float)t * 0.1f", lambda t: "%f" % float(np.float32(t) * np.float32(0.1))),
    ("%c%c %s %10s|%-6s|%.3s", "'a' + t, 'Z', \"word\", \"right\", \"left\", \"cut short\"",
     lambda t: f"{chr(97 + t)}Z word      right|left  |cut"),
    ("%*d|%-*d|%.*f", "6, t, 4, t, 1, t * 0.25", lambda t: "%*d|%-*d|%.*f" % (6, t, 4, t, 1, t * 0.25)),
    ("%d %f %d %lld %c", "t, 1.5, 7, 1LL << 40, 'x'", lambda t: f"{t} 1.500000 7 {1 << 40} x"),
]  # fmt: skip


def test_formats():
    calls = "\n".join(f'printf("{format_}\\n"{", " if args else ""}{args});' for format_, args, _ in LINES)
    program = Program.from_cuda(f'extern "C" __global__ void k() {{ int t = threadIdx.x; {calls} }}', "k")
    printed = launch(program, 1, 4, ()).printed.splitlines()
    assert len(printed) == 4 * len(LINES)
    for t in range(4):
        for format_, _, text in LINES:
            assert text(t) in printed, (format_, t, text(t), printed)


def test_threads_of_a_warp_print_in_order_and_blocks_one_after_another():
    program = Program.from_cuda(
        """extern "C" __global__ void k() {
          if (threadIdx.x % 3 == 1) printf("b%d t%d\\n", blockIdx.x, threadIdx.x); }""",
        "k",
    )
    wanted = [f"b{b} t{t}" for b in range(6) for t in range(40) if t % 3 == 1]
    assert launch(program, 6, 40, ()).printed.splitlines() == wanted
    assert launch(program, 6, 40, (), limits=Limits(threads=3)).printed.splitlines() == wanted


def test_nothing_printed_is_an_empty_text():
    program = Program.from_cuda('extern "C" __global__ void k(int n) { if (n) printf("never"); }', "k")
    assert launch(program, 2, 32, (0,)).printed == ""


def test_printing_in_a_loop_with_values_of_each_round():
    program = Program.from_cuda(
        """extern "C" __global__ void k() {
          for (int i = 0; i <= threadIdx.x; i++) printf("%d.%d ", threadIdx.x, i); }""",
        "k",
    )
    printed = launch(program, 1, 5, ()).printed.split()
    assert sorted(printed) == sorted(f"{t}.{i}" for t in range(5) for i in range(t + 1))


def test_numba_print():
    @cuda.jit
    def tell(x):
        i = cuda.grid(1)
        if i < 3:
            print("thread", i, x[i])

    printed = launch(tell, 1, 32, (np.array([1.5, 2.5, -3.0]),)).printed
    assert printed.splitlines() == ["thread 0 1.500000", "thread 1 2.500000", "thread 2 -3.000000"]


def test_a_full_buffer_is_a_warning_and_the_beginning_is_kept():
    program = Program.from_cuda(
        'extern "C" __global__ void k() { for (int i = 0; i < 3000; i++) printf("%d\\n", i); }', "k"
    )
    with pytest.warns(UserWarning, match=r"k: the print buffer was full; [\d,]+ lines were lost"):
        printed = launch(program, 1, 32, (), limits=Limits(threads=1)).printed
    assert printed.splitlines()[:64] == ["0"] * 32 + ["1"] * 32


def test_wide_columns_do_not_fill_the_host_s_memory(monkeypatch):
    monkeypatch.setattr(printing, "_PRINTED_CHARACTERS", 1_000_000)
    source = 'extern "C" __global__ void k(int n) { for (int i = 0; i < n; i++) printf("%4095d%4095d\\n", i, i); }'
    program = Program.from_cuda(source, "k")
    with pytest.warns(UserWarning, match=r"k: the print buffer was full; [\d,]+ lines were lost"):
        printed = launch(program, 1, 32, (200,), limits=Limits(threads=1)).printed
    assert 1_000_000 <= len(printed) < 1_010_000
    assert len(launch(program, 1, 32, (3,)).printed) == 3 * 32 * 8191


def test_a_format_of_many_long_texts_takes_no_longer_than_the_buffer():
    """In each turn all lanes would read 2 GB; limits and Ctrl-C take effect between turns."""
    source = """extern "C" __device__ int vprintf(const char *, const char *);
        extern "C" __global__ void k(const char *format, const char *arguments, const char *text, long n) {
          for (int i = 0; i < 32700; i++) ((const char **)arguments)[i] = text;
          for (long i = 0; i < n; i++) vprintf(format, arguments); }"""
    format_ = np.frombuffer(b"%s" * 32700 + b"\0", np.uint8).copy()
    arguments, text = np.zeros(32700, np.uint64), np.full(65536, ord("x"), np.uint8)
    program, start = Program.from_cuda(source, "k"), time.monotonic()
    with pytest.warns(UserWarning, match="buffer was full"), pytest.raises(LimitError, match="limit of 1 seconds"):
        launch(program, 1, 32, (format_, arguments, text, 1 << 40), limits=Limits(seconds=1))
    assert time.monotonic() - start < 10


def c_text(directive: str, value: object) -> str:
    """The host's printf of one argument."""
    buffer = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).snprintf(buffer, 4096, directive.encode(), value)
    return buffer.value.decode()


def test_random_directives_against_the_host_s_printf():
    rng = random.Random(5)
    for _ in range(3000):
        flags = "".join(rng.sample("-+ #0", rng.randrange(0, 4)))
        width, precision = rng.choice(["", "1", "8", "23"]), rng.choice(["", ".", ".0", ".1", ".3", ".12"])
        kind = rng.choice("diouxXfFeEgGaA")
        length = rng.choice(["", "hh", "h", "l", "ll"]) if kind in "diouxX" else ""
        directive = f"<%{flags}{width}{precision}{length}{kind}>"
        if kind in "diouxX":
            number = rng.choice([0, 1, -1, 7, 255, -128, 40000, 2**31 - 1, -(2**31), rng.randrange(-(2**31), 2**31)])
            if length in ("l", "ll"):
                number = rng.choice([number, rng.randrange(-(2**63), 2**63)])
                packed, value = struct.pack("<q", number), ctypes.c_longlong(number)
            else:
                packed, value = struct.pack("<i", number), ctypes.c_int(number)
        else:
            real = rng.choice(
                [0.0, -0.0, 1.0, 0.5, 2.5, -1e-7, 1e20, 123456.789, np.inf, -np.inf, np.nan, rng.random()]
            )
            packed, value = struct.pack("<d", real), ctypes.c_double(real)
        assert format_text(directive, packed, lambda address: None) == c_text(directive, value), (directive, value)
