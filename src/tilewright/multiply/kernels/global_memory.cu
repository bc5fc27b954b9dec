// S6: one thread per element of C, which reads global memory directly. x is the column, y the row; arrays are
// row-major. The source multiplies square int matrices; here T is any of int, float and double, and the shape is free.

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
// Unsigned, because a signed product may overflow only by undefined behaviour.
__device__ inline int multiply_add(int a, int b, int c) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

template <typename T>
__global__ void global_memory(const T *a, const T *b, T *c, int m, int n, int k) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) {
        return;
    }
    T sum = 0;
    for (int l = 0; l < k; ++l) {
        sum = multiply_add(a[y * k + l], b[l * n + x], sum);
    }
    c[y * n + x] = sum;
}
