"""Launches that may begin while the launch before them runs: what they use before they wait for it."""

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void filled(int *out, const int *) {
    out[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void never_waits(int *out, const int *x) {
    out[threadIdx.x] = 2 * x[threadIdx.x];  // finds: TW314
}
extern "C" __global__ void waits_late(int *out, const int *x) {
    const int first = x[threadIdx.x];  // finds: TW314
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = 2 * first;
}
extern "C" __global__ void overwrites(int *out, const int *) {
    out[threadIdx.x] = 0;  // finds: TW314
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
extern "C" __global__ void waits(int *out, const int *x) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = 2 * x[threadIdx.x];
}
extern "C" __global__ void one_waits(int *out, const int *x) {
    if (threadIdx.x == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = 2 * x[threadIdx.x];
}
extern "C" __global__ void plain(int *out, const int *x) {
    out[threadIdx.x] = 2 * x[threadIdx.x];
}
"""

device = Device()
device.set_current()
stream, other = device.create_stream(), device.create_stream()
options = ProgramOptions(arch=f"sm_{device.arch}", lineinfo=True, name=__file__)
module = Program(SOURCE, "c++", options).compile("ptx")
after, early = (LaunchConfig(grid=1, block=64, programmatic_stream_serialization=one) for one in (False, True))
x, y = (device.allocate(256, stream=stream) for _ in range(2))


def run(name, config, out, given, where=stream):
    launch(where, config, module.get_kernel(name), out, given)


for name in ("never_waits", "waits_late", "waits", "one_waits"):
    run("filled", after, x, x)
    run(name, early, y, x)
run("filled", after, x, x)
run("overwrites", early, x, x)

# it waits where it has no such attribute, and where an event or the host comes between; or uses other memory
run("filled", after, x, x)
run("plain", after, y, x)
run("filled", after, x, x)
stream.wait(other.record())
run("plain", early, y, x)
run("filled", after, x, x)
stream.sync()
run("plain", early, y, x)
run("filled", after, y, y)
run("waits_late", early, y, x)
stream.sync()
print("done")
