"""Check: what is wrong with the kernels of a program, gathered from instruments, the machine and the kernels' text."""
