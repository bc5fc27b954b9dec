"""Machine code for this host: compiled by LLVM, kept on disk, loaded into the process."""
