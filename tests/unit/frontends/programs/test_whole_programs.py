"""Whole CUDA programs, from source and as binaries, by the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
if shutil.which("g++") is None:
    pytest.skip("not run: the host has no C++ compiler", allow_module_level=True)

HERE = Path(__file__).parent

#: The output of `whole.cu` before its end, for any arguments.
PRINTED = """\
before
kernel prints
after
0 2 186 63, 64 threads, 42
pinned 7, registered 9 8
unregistered 9 8
called 1, time 1, sm_90
cudaGetLastError(): cudaErrorInvalidConfiguration
cudaGetLastError(): cudaSuccess
cudaMemcpy(device, host, 4 * sizeof host, cudaMemcpyHostToDevice): cudaErrorInvalidValue
cudaMalloc(&device, size_t(1) << 50): cudaErrorMemoryAllocation
cudaMallocMipmappedArray(nullptr, nullptr, {}, 1): cudaErrorNotSupported
memory of kind 2
"""


def tilewright(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)  # type: ignore[call-overload, no-any-return]


def said(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """Lines on standard error, without remarks that the program waits for a compiler."""
    return [line for line in ran.stderr.splitlines() if not line.startswith("compiling ")]


def built(name: str, folder: Path, *options: str) -> Path:
    """A program of this folder with the vendor's runtime linked in, as its compiler does by default."""
    from tilewright.simulate.programs.toolkits import vendor_program

    nvcc = vendor_program("nvcc", "NVIDIA's compiler", "this test")
    made, library = folder / name, nvcc.parents[1] / "lib"
    words = [nvcc, "-arch=compute_80", "-lineinfo", *options, f"-L{library}", "-o", made, HERE / f"{name}.cu"]
    subprocess.run(words, check=True, capture_output=True)
    return made


def compiled(name: str, folder: Path, *options: str) -> str:
    """A program of this folder as `tilewright run` compiles it, for tests that run it more than once."""
    from tilewright import machine
    from tilewright.frontends.programs import process, source

    return str(source.compiled(HERE / f"{name}.cu", machine.gpu("h100"), process.library(), folder, options))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`clusters.cu` as an executable."""
    return compiled("clusters", tmp_path_factory.mktemp("clusters"))


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`whole.cu` as an executable."""
    return built("whole", tmp_path_factory.mktemp("built"))


def test_a_program_of_source_runs_to_its_end() -> None:
    ran = tilewright("run", str(HERE / "whole.cu"))
    assert ran.stdout == PRINTED + "cudaDeviceSynchronize(): cudaSuccess\ncudaFree(device): cudaSuccess\n", ran.stderr
    assert ran.returncode == 1
    lines = said(ran)
    assert "a copy's target must be in one allocation (got 1 KiB from byte 0 on, of one of 256 B)" in lines[1]
    assert "cudaMallocMipmappedArray is not implemented by the simulated GPU" in lines[2]


def test_a_binary_with_a_linked_runtime_runs_and_reports_errors_of_kernels(binary: Path) -> None:
    ran = tilewright("run", "--gpu", "a100", str(binary), "beyond")
    assert "sm_80" in ran.stdout
    assert ran.stdout.endswith(
        "cudaDeviceSynchronize(): cudaErrorIllegalAddress\ncudaFree(device): cudaErrorIllegalAddress\n"
    )
    assert "beyond: out of bounds global store of 4 bytes" in ran.stderr
    assert ran.returncode == 2
    ran = tilewright("run", "--gpu", "a100", str(binary), "assert")
    assert "Assertion `value == 1` failed" in ran.stdout
    assert "cudaDeviceSynchronize(): cudaErrorAssert" in ran.stdout


#: The output of `shared_limits.cu`: how it launches, bytes of dynamic shared memory, the error, what the kernel made.
SHARED_LIMITS = """\
static 4096, by default 45056
plain 45056: cudaSuccess 12286
plain 45060: cudaErrorInvalidValue -1
allow 228356: cudaErrorInvalidValue 45056
allow 65536: cudaSuccess 65536
plain 65536: cudaSuccess 17406
plain 65540: cudaErrorInvalidValue -1
cooperative 65536: cudaSuccess 17406
extended 65536: cudaSuccess 17406
graph 65536: cudaSuccess 17406
allow 228352: cudaSuccess 228352
plain 228352: cudaSuccess 58110
threads 2048: cudaErrorInvalidConfiguration -1
"""


def test_static_shared_memory_comes_on_top_of_what_is_allowed() -> None:
    ran = tilewright("run", str(HERE / "shared_limits.cu"))
    assert ran.stdout == SHARED_LIMITS, ran.stderr
    default, too_much, allowed, threads = said(ran)
    assert "at most 45,056 bytes, which 4,096 static bytes leave of the usual 49,152 (got 45,060)" in default
    assert "must be at most 228,352 bytes on the NVIDIA H100" in too_much
    assert "at most 65,536 bytes, as the program has set (got 65,540)" in allowed
    assert "`block` must have at most 1,024 threads" in threads


def test_a_binary_in_the_current_folder_is_found(binary: Path) -> None:
    ran = tilewright("run", f"./{binary.name}", cwd=binary.parent)
    assert ran.stdout.startswith("before"), ran.stderr


def test_the_runtime_in_shared_libraries_is_replaced(tmp_path: Path) -> None:
    """In one that is linked, and in one that is loaded; a library without a path is found in the program's folders."""
    built("in_library", tmp_path, "-shared", "-Xcompiler", "-fPIC").rename(tmp_path / "libwork.so")
    (tmp_path / "linked.c").write_text(
        '#include <stdio.h>\nint work(int); int main(void) { printf("%d\\n", work(2)); }'
    )
    (tmp_path / "loaded.c").write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(int count, char **words) {"
        "void *found = dlopen(words[1], RTLD_NOW); int (*work)(int) = found ? dlsym(found, words[2]) : 0;"
        'printf("%d\\n", work ? work(2) : -3); }'
    )
    (tmp_path / "plain.c").write_text("int plain(int n) { return n + 1; }")
    folder = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/folder"
    (tmp_path / "folder").mkdir()
    for words in (
        ["-o", "linked", "linked.c", "-L.", "-lwork", "-Wl,-rpath,$ORIGIN"],
        ["-o", "loaded", "loaded.c", "-ldl", folder],
        ["-shared", "-fPIC", "-o", "folder/libplain.so", "plain.c"],
    ):
        subprocess.run(["gcc", *words], cwd=tmp_path, check=True)
    for words, expected in (
        (["./linked"], "10\n"),
        (["./loaded", "./libwork.so", "work"], "10\n"),
        (["./loaded", "libplain.so", "plain"], "3\n"),
    ):
        ran = tilewright("run", *words, cwd=tmp_path)
        assert (ran.stdout, said(ran)) == (expected, [])


def test_binaries_that_cannot_run_say_how_to_build_them(binary: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, binary], check=True)
    ran = tilewright("run", str(stripped))
    assert ran.returncode == 2
    assert "nvcc -cudart shared" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_graphs_and_the_driver_do_their_work_in_order() -> None:
    ran = tilewright("run", str(HERE / "graphs_and_driver.cu"))
    assert ran.stdout.splitlines() == [
        "captured 4 nodes, nothing done: 0, 11",
        "launched: 25, called 2",
        "made: 1107",
        "free: 1 0",
        "held: 9",
        "kept: 128 0 128 0",
        "no such kernel: 1",
        "driver: 84, variable of 4 bytes, 1024 threads, CUDA_ERROR_INVALID_VALUE",
        "1 kernel times, linked 0, memory 1, rows 0 1234",
    ]
    refused = ["tilewright: a graph can only free memory that a graph allocates"]
    assert (ran.returncode, said(ran)) == (0, refused)


#: The output of `repeated.cu` before its end; the fourth of its five last launches fails.
REPEATED = """\
launches: 1 of 0
captured: 1 of 0
graph: 1 of 0
refused: 9
refused: 9
threads: 1 of 0
launched: 700
"""


def test_launches_that_are_not_waited_for_keep_their_order_and_report_at_the_next_call(tmp_path: Path) -> None:
    """Graphs, refused launches and threads among them, and a launch that fails."""
    program = compiled("repeated", tmp_path)
    waited = tilewright("run", program)
    assert waited.stdout == REPEATED + "waited: 700 700\n", waited.stderr
    refused, failed = said(waited)
    assert "at most 1,024 threads" in refused
    assert "address 0x0" in failed
    left = tilewright("check", program, "leave", "--json")
    assert "launched: 700" in left.stdout + left.stderr and left.returncode == 1
    assert "2 findings (2 errors) in 172 launches of 2 kernels" in left.stdout  # with the last, that nobody waited for


def test_threads_that_come_and_go_and_a_callback_that_launches() -> None:
    ran = tilewright("run", str(HERE / "connections.cu"))
    assert (ran.stdout, said(ran)) == ("called: 4\nthreads: 5, 0\n", []), ran.stderr


def test_textures_and_graphs_of_single_nodes_by_the_driver() -> None:
    ran = tilewright("run", str(HERE / "single_nodes.cu"))
    assert (ran.stdout, said(ran)) == ("0.5 9 110.5, 4 channels 1, 1\n5 12.5\n", []), ran.stderr


def test_programs_of_cuda_12_find_its_names_parameters_and_structures() -> None:
    ran = tilewright("run", "--gpu", "a100", str(HERE / "older.cu"))
    assert ran.stdout == "0 8.0 1410 MHz 108\n0 12\n0 0 0 1\n801\n", ran.stderr
    assert said(ran) == [
        "tilewright: cuMipmappedArrayCreate is not implemented by the simulated GPU: not supported, error 801"
    ]


def test_clusters_are_those_of_the_launch_or_of_the_kernel(clusters: str) -> None:
    ran = tilewright("run", clusters)
    expected = [f"kernel: {_told(2)}", f"launch: {_told(1)}", f"launch: {_told(4)}"]
    expected += [f"{blocks}: cudaErrorInvalidClusterSize" for blocks in (3, 0, 16)]
    expected += [f"launch: {_told(8)}", f"launch: {_told(16)}", "32: cudaErrorInvalidClusterSize"]
    assert ran.stdout.splitlines() == expected
    assert "at most 8 blocks, unless the kernel has the attribute NonPortableClusterSizeAllowed" in ran.stderr
    assert "the grid (8, 1, 1) must be a multiple of the launch's cluster (3, 1, 1)" in ran.stderr


def _told(blocks: int) -> str:
    """Output of 8 blocks: 100 times the number of the next one of the cluster, 10 times the rank, the blocks."""
    shown = (100 * (at - at % blocks + (at + 1) % blocks) + 10 * (at % blocks) + blocks for at in range(8))
    return " ".join(map(str, (*shown, "cudaSuccess")))


def test_device_code_that_is_compiled_separately_is_linked() -> None:
    environment = {**os.environ, "NVCC_APPEND_FLAGS": f"-rdc=true {HERE / 'apart_other.cu'}"}
    ran = tilewright("run", str(HERE / "apart.cu"), env=environment)
    assert (ran.stdout, said(ran)) == ("42 3 cudaSuccess\n", [])


NESTED = """\
cudaErrorInvalidConfiguration
0 1
inner 0
inner 1
after
24: launch would exceed maximum depth of nested launches, then cudaSuccess
98 198 198 16843009 24 0
"""


def test_kernels_launch_kernels(tmp_path: Path) -> None:
    program = compiled("nested", tmp_path, "-rdc=true")
    ran = tilewright("run", program)
    assert ran.stdout == NESTED + "cudaSuccess\n", ran.stderr
    assert not ran.stderr
    ran = tilewright("check", "--json", program, "beyond")
    assert {(found["code"], found["kernel"].partition("(")[0]) for found in json.loads(ran.stdout)["findings"]} == {
        ("TW101", "inner")
    }
    ran = tilewright("profile", "--json", program)
    assert ran.stdout.count('"inner') and ran.stdout.count('"deeper')


def test_check_reports_launches_that_did_not_run(clusters: str) -> None:
    ran = tilewright("check", clusters)
    said = "no findings in 7 launches of 2 kernels; 2 of them did not run to their end (named_at_launch)"
    assert ran.returncode == 3
    assert " ".join(ran.stdout.split()).endswith(said)


def test_check_and_profile_name_lines_of_the_source() -> None:
    line = "racing.cu:6"
    ran = tilewright("check", "--json", str(HERE / "racing.cu"))
    found = json.loads(ran.stdout)["findings"]
    assert ran.returncode == 1
    assert [one["code"] for one in found] == ["TW301"]
    assert line in json.dumps(found)
    ran = tilewright("profile", "--json", str(HERE / "racing.cu"))
    (profile,) = json.loads(ran.stdout)["profiles"]
    assert profile["kernel"] == "reversed"


def test_kernels_of_two_streams_on_one_buffer_must_be_ordered(tmp_path: Path) -> None:
    program = str(built("streams", tmp_path))  # compiled once for all runs
    for order in ("none", "late", "default"):
        ran = tilewright("check", "--json", program, order)
        (found,) = json.loads(ran.stdout)["findings"]
        assert (found["code"], found["kernel"]) == ("TW309", "second")
        assert found["source"].endswith("streams.cu") and found["line"] == 6
        assert "the launch writes memory that `first`, launched in another stream at" in found["message"]
        assert "streams.cu:5, writes" in found["message"]
    ran = tilewright("check", "--json", program, "event", "stream", "device", "copy", "graph")
    checked = json.loads(ran.stdout)
    assert (checked["findings"], checked["launches"]) == ([], 13)


def test_source_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.cu").write_text("#include <cudnn.h>\nint main() {}\n")
    ran = tilewright("run", str(tmp_path / "wrong.cu"))
    assert ran.returncode == 2
    assert "includes cudnn.h, of cuDNN" in ran.stderr
    (tmp_path / "wrong.cu").write_text("#include <cublas_v2.h>\nint main() { return cublasSgetrfBatched(); }\n")
    ran = tilewright("run", str(tmp_path / "wrong.cu"))
    assert ran.returncode == 2
    assert "cublasSgetrfBatched" in ran.stderr
    if not list(Path(sys.prefix).rglob("curand_kernel.h")):
        (tmp_path / "wrong.cu").write_text("#include <curand_kernel.h>\nint main() {}\n")
        ran = tilewright("run", str(tmp_path / "wrong.cu"))
        assert (ran.returncode, "pip install nvidia-curand" in ran.stderr) == (2, True)
    (tmp_path / "wrong.cu").write_text(
        'extern "C" int curandCreateGenerator(); int main() { curandCreateGenerator(); }'
    )
    ran = tilewright("run", str(tmp_path / "wrong.cu"))
    assert ran.returncode == 2
    assert "uses curandCreateGenerator, of cuRAND, a library in machine code" in ran.stderr


def test_a_binary_that_uses_a_closed_library_is_told_so(binary: Path, tmp_path: Path) -> None:
    using = tmp_path / "using"
    using.write_bytes(binary.read_bytes() + b"libcudnn.so.9\0")
    using.chmod(0o700)
    ran = tilewright("run", str(using))
    assert f"{using} uses libcudnn.so.9, of cuDNN" in said(ran)[0]
    assert ran.stdout.startswith("before")


@pytest.mark.parametrize("version", ["12", "13"])
def test_a_program_of_a_shared_runtime_runs_without_remarks(version: str, tmp_path: Path) -> None:
    """The vendor's runtimes give their symbols a version, which the loader asks of ours."""
    name = f"libcudart.so.{version}"
    (tmp_path / "map").write_text(f"{name} {{ global: *; }};")
    (tmp_path / "stub.c").write_text("int cudaGetDeviceCount(int *count) { return 1; }")
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint cudaGetDeviceCount(int *); int main(void)"
        '{ int n, e = cudaGetDeviceCount(&n); printf("%d %d\\n", e, n); }'
    )
    script, soname = f"-Wl,--version-script={tmp_path / 'map'}", f"-Wl,-soname,{name}"
    words = ["gcc", "-shared", "-fPIC", script, soname, "-o", name, "stub.c"]
    subprocess.run(words, cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-o", "main", "main.c", name], cwd=tmp_path, check=True)
    ran = tilewright("run", str(tmp_path / "main"))
    assert (ran.stdout, said(ran)) == ("0 1\n", [])


@pytest.mark.volume
def test_ctrl_c_and_a_program_that_is_killed_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "endless.cu").write_text(
        "#include <cstdio>\n#include <csignal>\n#include <cstring>\n"
        "__global__ void wait(volatile int *x) { while (!*x); }\n"
        "int main(int count, char **words) {\n"
        '    int *x; cudaMalloc(&x, 4); cudaMemset(x, 0, 4); puts("begins"); fflush(stdout);\n'
        "    if (count > 1) raise(SIGKILL);\n"
        "    wait<<<1, 1>>>(x); return cudaDeviceSynchronize(); }\n"
    )
    ran = tilewright("run", str(tmp_path / "endless.cu"), "killed")
    assert ran.returncode == 128 + signal.SIGKILL
    assert "ended by SIGKILL" in ran.stderr
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "endless.cu")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as going:
        assert going.stdout is not None
        assert going.stdout.readline() == "begins\n"
        time.sleep(0.5)
        os.killpg(going.pid, signal.SIGINT)
        _, said = going.communicate(timeout=60)
    assert going.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
