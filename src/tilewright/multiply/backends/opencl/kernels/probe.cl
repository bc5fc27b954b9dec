// Arithmetic of a device that its description may not state: whether fma rounds once and nothing else is fused, whether
// subnormal sums are kept, and the results of conversions of halves.
#pragma OPENCL FP_CONTRACT OFF
kernel void probe(global const float *x, global float *found) {
    found[0] = fma(x[0], x[0], x[1]);
    found[1] = x[0] * x[0] + x[1];
    found[2] = x[2] + x[2];
    ushort half_bits;
    vstore_half_rte(x[3], 0, (half *)&half_bits);
    found[3] = vload_half(0, (const half *)&half_bits);
#ifdef DOUBLES
    const double y = 1 + (double)x[4], z = -(1 + 2 * (double)x[4]);
    found[4] = (float)fma(y, y, z);
    found[5] = (float)(y * y + z);
#endif
}
