"""From instructions to LLVM: flow, arithmetic, matrices, calls."""
