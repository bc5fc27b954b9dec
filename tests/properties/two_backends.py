"""Compiles one LLVM text to PTX and to a host function."""

from __future__ import annotations

import ctypes

import llvm_programs
import llvmlite.binding as llvm
import numpy as np

#: Words that are edges of some type: integers, float64, float32 and float16 (zeros, ones, infinities, NaNs).
EDGES = (0, 1, 1 << 63, (1 << 64) - 1, 0x3FF0 << 48, 0x7FF0 << 48, (0x7FF8 << 48) + 1, 0x3F800000, 0x7F800000,
         0x7FC00001, 0x80000000, 0x3C00, 0x7C00, 0x80)  # fmt: skip


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, level: int) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, options)
    )


def to_ptx(text: str, level: int) -> str:
    """PTX of a program, optimised at a level from 0 to 3."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu="sm_90", features="+ptx80", opt=level)
    module = llvm.parse_assembly('target triple = "nvptx64-nvidia-cuda"\n' + text + llvm_programs.PTX_ENTRY)
    module.data_layout = str(machine.target_data)
    _optimise(module, machine, level)
    return str(machine.emit_assembly(module))


def on_host(text: str, inputs: np.ndarray) -> np.ndarray:
    """What the program writes for each record of `inputs`, computed by the host without optimisation."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    if "+avx512dq" in features:  # with it LLVM 22 loses a signalling NaN beside a converted integer
        features += ",-avx512dq"
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=0, jit=True)
    module = llvm.parse_assembly(text + llvm_programs.HOST_ENTRY)
    compiler = llvm.create_lljit_compiler(machine)
    library = llvm.JITLibraryBuilder().add_ir(module).export_symbol("k").add_current_process().link(compiler, "program")
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library["k"])
    outputs = np.zeros((len(inputs), llvm_programs.OUTPUTS), np.uint64)
    for row in range(len(inputs)):
        function(inputs[row].ctypes.data, outputs[row].ctypes.data)
    return outputs


def records(seed: int, count: int) -> np.ndarray:
    """Input words: random bits, small numbers, and edges, so that lanes diverge."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 64, (count, llvm_programs.INPUTS), dtype=np.uint64)
    style = rng.integers(0, 4, words.shape)
    words[style == 1] &= np.uint64(0xF)
    edges = np.array(EDGES, np.uint64)
    words[style == 2] = rng.choice(edges, int(np.count_nonzero(style == 2)))
    return words
