"""From a syntax tree to LLVM: control flow, shapes, masks."""
