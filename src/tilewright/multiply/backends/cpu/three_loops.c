// S5: the three loops, and nothing else: i, j, l, one running sum, row-major flat arrays.

#include <stdint.h>

void tw_three_loops_float32(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum = __builtin_fmaf(a[i * k + l], b[l * n + j], sum);
            c[i * n + j] = sum;
        }
}

void tw_three_loops_float64(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum = __builtin_fma(a[i * k + l], b[l * n + j], sum);
            c[i * n + j] = sum;
        }
}

void tw_three_loops_int32(const int32_t *a, const int32_t *b, int32_t *c, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int32_t sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * k + l] * b[l * n + j];
            c[i * n + j] = sum;
        }
}
