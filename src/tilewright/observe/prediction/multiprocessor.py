"""The blocks of a launch on one multiprocessor, simulated clock by clock, with no fitted number.

- **Issue.** Warps go to four partitions in turn. A partition issues one instruction per clock: of the warp that issued
  last, else of the ready warp with the highest number, which is the youngest until a block is replaced. The compiler's
  control bits say when a warp is ready: after its stall count, when the dependence counters that the instruction waits
  for are free.
- **Pipes** take an instruction every one or more clocks (:mod:`tilewright.observe.prediction.pipes`). Operands of
fixed-latency
  instructions pass two register banks with one port each, in a window of three clocks, except those that the compiler
  keeps in the operand cache.
- **Memory.** A partition queues five memory instructions, and computes an address every four clocks. The multiprocessor
  accepts one request of its partitions every one or two clocks, in issue order. Shared memory then takes one clock per
  wavefront. The first level looks up one line per clock, and moves 128 bytes. Misses go to the second level or to
  memory, at this multiprocessor's share of their rates, and with their latency.
- **Copies** to shared memory cost what the load and the store to shared memory cost. The warp continues; it waits where
  it waits for a group of copies.
- **Tensor cores** take one matrix product of a warp at a time. The compiler's stall counts say when its result is
  ready, except for float64. Products of a warpgroup wait in a queue of each partition, a quarter in each, and read
  shared memory while they run; a warp waits where it waits for a group of products.
- **Tensor memory.** A thread's products, its copies to tensor memory and its commits wait in one queue of the
  multiprocessor. A product occupies all tensor cores for as long as its columns of 128 rows need, or as long as its
  operands need to be read from shared memory; of a pair of blocks, those of both. Registers move to and from tensor
  memory through a pipe of each partition.
- **Bulk copies** come from the second level or from memory, as loads do, and are written to shared memory 1 KiB at a
  time. An mbarrier counts arrivals and bytes as they come; a warp that waits for its phase continues when it completes.
- **Blocks.** When a block's last warp has ended, the next block takes its place.
- **Clusters.** Each block of a cluster has its own multiprocessor; these run side by side. The next cluster begins when
  all blocks have ended. A multicast copy requests its data from the second level once, and is written in each block
  that it names. Operations on another block's mbarrier, and the cluster's barrier, have the latency between
  multiprocessors.

Left out: instruction caches, constant caches, and divergent paths. All warps take one mean path, except in kernels that
wait for mbarriers: there each role has its own (:mod:`tilewright.observe.prediction.crew`).

Sources: Huerta, Abaie Shoushtary, Cruz, Gonzalez, Dissecting and Modeling the Architecture of Modern GPU Cores, MICRO
2025; `simulate/machine/timing.toml` has that of each number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.ground.native.functions import functions
from tilewright.ground.native.header import header
from tilewright.observe.prediction import opcodes, pipes
from tilewright.observe.prediction.crew import Crew
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.observe.profiling.counts import SECTOR_BYTES, WAVEFRONT_BYTES
from tilewright.observe.profiling.record import Unit
from tilewright.simulate.machine import WARP_LANES, Gpu, limiters as names
from tilewright.simulate.machine.timing import Timing, timing
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction

_SOURCE = Path(__file__).with_name("multiprocessor.c")
_SHARED = header(_SOURCE.with_suffix(".h"))
_NUMBERS = _SHARED.numbers
_CODE, _WARP, _ROLE, _MBARRIER, _ARRIVAL, _MACHINE = (
    _SHARED.structs[f"tw_sm{name}"].dtype for name in ("_instruction", "_warp", "_role", "_mbarrier", "_arrival", "")
)
_ARRIVALS = _NUMBERS["TW_SM_ARRIVALS"]
#: What the clocks were spent on, by number.
CAUSES = (
    names.ISSUE, names.WAIT, names.PIPE, names.DISPATCH, names.MIO, names.SHORT, names.LONG, names.SHORT,
    names.BARRIER, names.NO_WARPS, names.GMMA, names.MBARRIER,
)  # fmt: skip
#: The units whose work is counted: the machine's stages by number, issue, and the pipes.
STAGES = (names.LSU, names.TAGS, names.L1, names.L2, names.DRAM, names.TENSOR)
UNITS = (*STAGES, names.ISSUE, *pipes.UNITS)
#: Issuing clocks between two checks for Ctrl-C and the deadline.
_SLICE = 1 << 18
_WORD_BYTES = 4
_WIDTH = re.compile(r"\.(128|64)\b")
#: Loads of 8 x 8 matrices, of which a warp loads up to four: 4 bytes per lane each.
_MATRICES = re.compile(r"\.MT?88\.(\d)\b")
#: The halves of the cluster's barrier.
_CLUSTER = {"UCGABAR_ARV": "TW_SM_CLUSTER_ARRIVE", "UCGABAR_WAIT": "TW_SM_CLUSTER_WAIT"}
_REGISTER = re.compile(r"[-|~]*R(\d+)")


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulation of blocks on one multiprocessor."""

    clocks: float
    went: npt.NDArray[np.float64]  #: Clocks of all partitions, by what they were spent on, in the order of `CAUSES`.
    worked: npt.NDArray[np.float64]  #: Clocks in which each of `UNITS` worked.
    waits: int = 0  #: Number of waits for copies.
    flying: float = 0.0  #: Sum over these waits of the copy groups, or phases with missing bytes, in flight;
    most_flying: int = 0  #: and the largest number at one wait.

    @property
    def instructions(self) -> float:
        """Instructions issued by all partitions."""
        return float(self.went[_NUMBERS["TW_SM_ISSUED"]])

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the partitions' clocks, by name."""
        found = dict.fromkeys(CAUSES, 0.0)
        for name, clocks in zip(CAUSES, self.went.tolist(), strict=True):
            found[name] += clocks / (float(self.clocks) * _NUMBERS["TW_SM_PARTITIONS"])
        return found

    @property
    def busy(self) -> dict[str, float]:
        """Shares of the clocks in which each of `UNITS` worked: at most 1, so no unit takes longer than the kernel."""
        return dict(zip(UNITS, map(float, np.minimum(self.worked / self.clocks, 1.0)), strict=True))

    def plus(self, times: float, more: Simulated, less: Simulated) -> Simulated:
        """The result itself, plus `times` the difference between `more` and `less`."""
        return Simulated(
            self.clocks + times * (more.clocks - less.clocks),
            np.maximum(self.went + times * (more.went - less.went), 0.0),
            np.maximum(self.worked + times * (more.worked - less.worked), 0.0),
            self.waits,
            self.flying,
            max(self.most_flying, more.most_flying),
        )

    def times(self, share: float) -> Simulated:
        """A part of the work, or several times it."""
        return replace(self, clocks=share * self.clocks, went=share * self.went, worked=share * self.worked)


def run(
    code: Sequence[Instruction],
    crew: Crew,
    work: Workload,
    gpu: Gpu,
    *,
    blocks: int,
    active: int,
    deadline: Deadline,
    clock_mhz: int | None = None,
) -> Simulated:
    """Simulate `blocks` blocks on a multiprocessor while `active` multiprocessors share the second level and memory.

    For clusters, one multiprocessor for each block of a cluster runs `blocks` each; the result is their mean. Memory
    keeps its own clock if `clock_mhz` is not the boost clock.

    Raises CompileError: the control bits of the machine code wait for something that never happens.
    """
    resident, mhz = min(work.resident_blocks, blocks), clock_mhz or gpu.boost_mhz
    held = _held(crew, resident)
    held["code"] = lower(code, work.sites, gpu, mhz, far=work.bulk_far, local=work.local, block_warps=crew.block_warps)
    machines = np.zeros(crew.blocks, _MACHINE)
    for name in ("code", "roles"):  # shared by all
        machines[name] = held[name].ctypes.data
    for name in ("warps", "mbarriers", "arrivals", "arrived", "live"):
        machines[name] = [of_one.ctypes.data for of_one in held[name]]
    for name, value in _numbers(gpu, timing(gpu), active, mhz).items():
        machines[name] = value
    machines["many"], machines["block_warps"] = resident * crew.block_warps, crew.block_warps
    machines["block_mbarriers"] = len(crew.expected) // crew.blocks
    machines["cluster"], machines["cluster_blocks"] = machines.ctypes.data, crew.blocks
    machines["to_start"], machines["to_finish"] = blocks - resident, blocks
    machines["partitions"]["kept"] = -1
    advance = functions("tw_sm_", _SOURCE).run
    while (state := advance(machines.ctypes.data, _SLICE)) == 1:
        deadline.check()
    if state:
        raise CompileError("a predicted kernel must end (got code that waits for ever); predict one without such waits")
    issued, went = float(machines["clock"][0]), machines["clocks"].mean(axis=0)
    clocks = max(1.0, issued, machines["l2"].max(), machines["dram"].max())  # with stores that nothing waits for
    went[CAUSES.index(names.LONG)] += (clocks - max(1.0, issued)) * _NUMBERS["TW_SM_PARTITIONS"]
    waits, flying, most = machines["flights"].T
    instructions = went[_NUMBERS["TW_SM_ISSUED"]] / _NUMBERS["TW_SM_PARTITIONS"]
    worked = np.array([*machines["busy"].mean(axis=0), instructions, *_in_pipes(held["code"], crew, blocks)])
    return Simulated(float(clocks), went, worked, int(waits.sum()), flying.sum(), int(most.max()))


def _in_pipes(code: npt.NDArray[Any], crew: Crew, blocks: int) -> list[float]:
    """Clocks of a partition's pipes for its part of `blocks` blocks, as the mean of the partitions."""
    executed = np.zeros(len(code))
    for role, path in enumerate(crew.paths):
        executed += crew.of_warp.count(role) * np.bincount(path, minlength=len(code))
    clocks = executed * code["interval"] * blocks / crew.blocks / _NUMBERS["TW_SM_PARTITIONS"]
    return pipes.clocks(code["pipes"], clocks)


def works(found: Simulated, gpu: Gpu, active: int, clock_mhz: int) -> tuple[Unit, ...]:
    """The least time of each unit for the work of a multiprocessor, the slowest first."""
    numbers = _numbers(gpu, timing(gpu), active, clock_mhz)
    a_clock = {
        names.LSU: (1 / numbers["request_clocks"], "requests"),
        names.TAGS: (1.0, "lookups"),
        names.L1: (gpu.shared_bytes_per_clock, "bytes"),
        names.L2: (numbers["l2_sectors_per_clock"] * SECTOR_BYTES, "bytes"),
        names.DRAM: (numbers["dram_sectors_per_clock"] * SECTOR_BYTES, "bytes"),
        names.ISSUE: (_NUMBERS["TW_SM_PARTITIONS"], "instructions"),
    }
    units = []
    for name, share in found.busy.items():
        rate, of = a_clock.get(name, (1.0, "clocks"))
        clocks = share * found.clocks
        units.append(Unit(name, round(clocks * rate), of, clocks / (clock_mhz * 1e6)))
    return tuple(sorted((one for one in units if one.amount), key=lambda one: -one.seconds))


def _held(crew: Crew, resident: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays that the machines point to: the roles, and for each machine a row of everything else."""
    warps = np.zeros((crew.blocks, resident, crew.block_warps), _WARP)
    warps["block"] = np.arange(resident)[:, None]
    warps["role"] = np.reshape(crew.of_warp, (crew.blocks, 1, crew.block_warps))
    warps["live"] = 1
    roles = np.zeros(len(crew.paths), _ROLE)
    roles["trace"] = [path.ctypes.data for path in crew.paths]
    roles["length"] = [len(path) for path in crew.paths]
    roles["operations"] = [operations.ctypes.data for operations in crew.operations]
    each = len(crew.expected) // crew.blocks
    mbarriers = np.zeros((crew.blocks, resident, max(1, each)), _MBARRIER)
    if each:
        mbarriers["expected"] = mbarriers["pending"] = np.reshape(crew.expected, (crew.blocks, 1, each))
    return {
        "warps": warps,
        "roles": roles,
        "mbarriers": mbarriers,
        "arrivals": np.zeros((crew.blocks, _ARRIVALS), _ARRIVAL),
        "arrived": np.zeros((crew.blocks, resident), np.uint64),
        "live": np.full((crew.blocks, resident), crew.block_warps, np.uint64),
    }


def _numbers(gpu: Gpu, times: Timing, active: int, clock_mhz: int) -> dict[str, float]:
    """The numbers of the machine itself."""
    a_clock = gpu.memory_gb_per_s * 1e3 / clock_mhz / SECTOR_BYTES
    l2 = float(times.l2_sectors)
    if gpu.l2_bytes_per_clock:
        l2 = min(l2, gpu.l2_bytes_per_clock / SECTOR_BYTES / active)
    return {
        "queue_places": times.queue_places,
        "lead_clocks": times.lead,
        "address_clocks": times.address,
        "leave_clocks": times.leave,
        "request_clocks": times.request,
        "barrier_clocks": times.barrier,
        "start_clocks": times.start,
        "product_clocks": times.product,
        "copy_clocks": times.bulk,
        "remote_clocks": times.remote,
        "pair_clocks": times.pair,
        "data_bytes_per_clock": gpu.shared_bytes_per_clock,
        "l2_sectors_per_clock": l2,
        "dram_sectors_per_clock": a_clock / active,
    }


def lower(
    code: Sequence[Instruction],
    sites: Mapping[int, Requests],
    gpu: Gpu,
    clock_mhz: int,
    *,
    far: float = 0.0,
    local: bool = True,
    block_warps: int = 0,
) -> npt.NDArray[Any]:
    """Machine code as the model reads it, one record per instruction; `far` of bulk copies' bytes come from memory.

    Without `local`, accesses to local memory take no time.
    """
    records = np.zeros(len(code), _CODE)
    records["operands"] = -1
    times = timing(gpu)
    groups = {one.sets for one in code if opcodes.row(one.name).group == "commit"}
    for one, record in zip(code, records, strict=True):
        taken = pipes.taken(one.opcode, gpu)
        record["pipes"], record["interval"] = taken.pipes, taken.interval
        record["stall"], record["yields"] = one.stall, one.yields
        record["sets"], record["frees"], record["waits"], record["reuse"] = one.sets, one.frees, one.waits, one.reuse
        site = sites.get(one.ptx_line, Requests(0.0))
        row = opcodes.row(one.name)
        if row.pipe == "orders":
            _order(record, one, gpu)
            continue
        if row.operation:
            _operation(record, one, site, gpu, clock_mhz, far)
            continue
        if row.access and (_never(one, sites) or (row.local and not local)):
            continue
        if row.access.startswith("shared"):
            _shared(record, one, site, gpu, times)
        elif row.access:
            _global(record, one, site, gpu, clock_mhz)
        elif row.pipe == "asynchronous tensor":
            _group_product(record, one, gpu)
        elif row.pipe == "tensor":
            _product(record, one, taken, times)
        elif row.group:
            _group(record, one, groups)
        elif row.pipe in ("special", "tensor memory") and (one.sets, one.frees) != (NO_COUNTER, NO_COUNTER):
            _special(record, row.pipe, taken, times)
        elif row.flow == "barrier" and ".SYNC" in one.opcode:
            record["kind"], record["warps"] = _NUMBERS["TW_SM_BARRIER"], _part(one, block_warps)
        elif one.name in _CLUSTER:
            record["kind"] = _NUMBERS[_CLUSTER[one.name]]
        else:
            record["operands"] = _registers(one)
    return records


def _special(record: Any, pipe: str, taken: pipes.Taken, times: Timing) -> None:
    """An instruction whose result and operands free counters: of a special unit, or a move of tensor memory."""
    moves = pipe == "tensor memory"
    record["kind"] = _NUMBERS["TW_SM_SPECIAL"]
    record["result_clocks"] = taken.interval + times.columns if moves else times.special_result
    record["read_clocks"] = taken.interval if moves else times.special_read


def _part(one: Instruction, block_warps: int) -> int:
    """Warps of a barrier for a part of the block; 0 if it is for all, or if a register says how many."""
    threads = one.operands[1] if len(one.operands) > 1 else ""
    warps = int(threads, 16) // WARP_LANES if threads.startswith("0x") else 0
    return warps if warps < block_warps else 0


def _never(one: Instruction, sites: Mapping[int, Requests]) -> bool:
    """Whether the predicate is always false: the assembler's own, or no lane requested anything."""
    return one.guard == "@!PT" or bool(one.guard and one.ptx_line in sites and not sites[one.ptx_line].requests)


def _shared(record: Any, one: Instruction, site: Requests, gpu: Gpu, times: Timing) -> None:
    size = _lane_bytes(one)
    record["kind"] = _NUMBERS["TW_SM_SHARED"]
    record["result_clocks"] = _result(times, "shared", size)
    record["read_clocks"] = times.latency("read", opcodes.row(one.name).access, size) - times.lead
    # A value that all lanes share is still written to the registers of each.
    wavefronts = max(site.wavefronts, size / _WORD_BYTES)
    record["wavefronts"] = wavefronts * WAVEFRONT_BYTES / gpu.shared_bytes_per_clock


def _global(record: Any, one: Instruction, site: Requests, gpu: Gpu, clock_mhz: int) -> None:
    times = timing(gpu)
    size = _lane_bytes(one)
    access = opcodes.row(one.name).access
    kind = "load" if access == "copy" else access
    record["kind"] = _NUMBERS[f"TW_SM_{access.upper()}"]
    record["result_clocks"] = _result(times, "global", size)
    record["read_clocks"] = times.latency("read", f"global_{kind}", size) - times.lead
    record["tags"] = site.lines
    moved = max(site.sectors * SECTOR_BYTES, size * WARP_LANES)
    record["wavefronts"] = moved / (gpu.l1_bytes_per_clock or WAVEFRONT_BYTES)
    if access == "copy":  # it is written to shared memory; cp.async.cg does not read the first level
        written = site.wavefronts * WAVEFRONT_BYTES / gpu.shared_bytes_per_clock
        record["wavefronts"] = written + (0.0 if ".BYPASS" in one.opcode else record["wavefronts"])
    record["l2_sectors"], record["dram_sectors"] = site.l2_sectors, site.dram_sectors
    far = site.dram_sectors / site.l2_sectors if site.l2_sectors else 0.0
    beyond = (times.dram - times.l2) * clock_mhz / gpu.boost_mhz
    record["miss_clocks"] = times.l2 + far * beyond


def _product(record: Any, one: Instruction, taken: pipes.Taken, times: Timing) -> None:
    """A matrix product; it uses a counter if the compiler does not know its latency, as for float64."""
    if (one.sets, one.frees) != (NO_COUNTER, NO_COUNTER):
        record["kind"] = _NUMBERS["TW_SM_SPECIAL"]
        record["result_clocks"] = max(taken.interval, times.float64_product)
        record["read_clocks"] = times.special_read


def _group_product(record: Any, one: Instruction, gpu: Gpu) -> None:
    """A quarter of a warpgroup's product, which reads shared memory as it runs; the last one of a group is marked."""
    record["kind"] = _NUMBERS["TW_SM_PRODUCT"]
    read = pipes.operand_bytes(one.opcode, a_in_memory=not _REGISTER.match(one.operands[1]))
    record["wavefronts"] = read / gpu.shared_bytes_per_clock
    record["ends"] = any(operand.startswith("gsb") for operand in one.operands)


def _order(record: Any, one: Instruction, gpu: Gpu) -> None:
    """An order to tensor memory, which begins when its turn comes."""
    record["kind"] = _NUMBERS["TW_SM_ORDER"]
    record["read_clocks"], record["pair"] = timing(gpu).special_read, "2CTA" in one.opcode.split(".")
    if opcodes.row(one.name).elements:
        record["column_clocks"] = pipes.column_clocks(one.opcode, gpu)


def _operation(record: Any, one: Instruction, site: Requests, gpu: Gpu, clock_mhz: int, far: float) -> None:
    """An operation on an mbarrier or the start of a bulk copy (which runs by itself) is a request to shared memory."""
    times = timing(gpu)
    record["kind"] = _NUMBERS["TW_SM_OPERATION"]
    record["result_clocks"] = _result(times, "shared", _WORD_BYTES)
    record["read_clocks"] = times.latency("read", "shared_store", _WORD_BYTES) - times.lead
    record["wavefronts"] = 1.0 if one.name == "SYNCS" else 0.0
    record["dram_sectors"] = far
    beyond = (times.dram - times.l2) * clock_mhz / gpu.boost_mhz
    record["miss_clocks"] = times.l2 + far * beyond


def _group(record: Any, one: Instruction, groups: set[int]) -> None:
    """The end of a group of copies, or a wait for all but the newest few, on the counter that the ends use."""
    if opcodes.row(one.name).group == "commit":
        record["kind"] = _NUMBERS["TW_SM_COMMIT"]
    elif one.name == "WARPGROUP":
        if ".DEPBAR" in one.opcode:
            record["kind"], record["pending"] = _NUMBERS["TW_SM_AWAIT_PRODUCTS"], int(one.operands[1], 16)
    elif ".LE" in one.opcode and int(one.operands[0].removeprefix("SB")) in groups:
        record["kind"], record["pending"] = _NUMBERS["TW_SM_AWAIT"], int(one.operands[1], 16)


def _result(times: Timing, kind: str, size: int) -> int:
    """From the request to the result, without the data stage's clocks, which the measured latency includes."""
    return times.latency("result", kind, size) - times.lead - (size // _WORD_BYTES - 1)


def _lane_bytes(one: Instruction) -> int:
    if matrices := _MATRICES.search(one.opcode):
        return _WORD_BYTES * int(matrices[1])
    match = _WIDTH.search(one.opcode)
    return int(match[1]) // 8 if match else 4


def _registers(one: Instruction) -> list[int]:
    """The registers of the three source operands by position; -1 for none."""
    skipped = 2 if one.name.endswith("SETP") else 1
    sources = [x for x in one.operands[skipped:] if not x.lstrip("!").startswith(("P", "UP"))]
    found = [int(match[1]) if (match := _REGISTER.match(x)) else -1 for x in sources[:3]]
    return found + [-1] * (3 - len(found))
