"""Arguments that `cuda.core.launch` passes by their own bytes, for a kernel with parameters of other types."""

import numpy as np
from cuda.core import Device, LaunchConfig, Program, launch

SOURCE = """
extern "C" __global__ void add(float *x, float v, int n) {
    if (threadIdx.x < n) x[threadIdx.x] += v;
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
kernel = Program(SOURCE, "c++").compile("cubin").get_kernel("add")
x = device.memory_resource.allocate(128, stream=stream)
x.fill(np.uint8(0), stream=stream)
config = LaunchConfig(grid=1, block=32)
launch(stream, config, kernel, x, np.float32(2), np.int32(32))
launch(stream, config, kernel, x, np.float32(2), 32)  # its first four bytes are the number
launch(stream, config, kernel, x, 2.0, 32)  # finds: TW511
launch(stream, config, kernel, x, np.float32(2), np.int16(32))  # finds: TW511
stream.sync()
print("done")
