// What a device's arithmetic does where its description may be silent: whether fma rounds once, whether sums of floats
// below the smallest normal one are kept, and what a conversion of halves gives.
#pragma OPENCL FP_CONTRACT OFF
kernel void probe(global const float *x, global float *found) {
    found[0] = fma(x[0], x[1], x[2]);
    found[1] = x[3] + x[3];
    float back;
    ushort half_bits;
    vstore_half_rte(x[4], 0, (half *)&half_bits);
    back = vload_half(0, (const half *)&half_bits);
    found[2] = back;
}
