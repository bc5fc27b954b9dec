__device__ int shared_by_both = 2;

__device__ int doubled(int value) { return 2 * value; }

__global__ void there(int *out) { *out = ++shared_by_both; }

void launch_other(int *out) { there<<<1, 1>>>(out); }
