// The three loops and the loops in order, against a sum of one element written out.

#include <math.h>
#include <string.h>

#include "check.h"
#include "multiply/backends/cpu/three_loops.c"
#include "multiply/problem/ordered.c"

enum { M = 3, N = 2 * COLUMNS, K = 7 };

static uint32_t state = 1;

static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

// Fills flat arrays and b's panels, runs both, and compares bits. THREE is 0 where the three loops have no such type.
#define TEST(NAME, ELEMENT, TOTAL, VALUE, STEP, THREE)                                                            \
    static void test_##NAME(void)                                                                                 \
    {                                                                                                             \
        static ELEMENT a[M][K], b[K][N], panels[N / COLUMNS][K][COLUMNS];                                         \
        static TOTAL c[M][N], plain[M][N];                                                                        \
        for (int i = 0; i < M; i++)                                                                               \
            for (int l = 0; l < K; l++)                                                                           \
                a[i][l] = VALUE;                                                                                  \
        for (int l = 0; l < K; l++)                                                                               \
            for (int j = 0; j < N; j++)                                                                           \
                panels[j / COLUMNS][l][j % COLUMNS] = b[l][j] = VALUE;                                            \
        tw_ordered_##NAME(&a[0][0], (void *)panels, (void *)c, M, N, K);                                          \
        for (int i = 0; i < M; i++)                                                                               \
            for (int j = 0; j < N; j++) {                                                                         \
                TOTAL sum = 0;                                                                                    \
                for (int l = 0; l < K; l++)                                                                       \
                    sum = STEP;                                                                                   \
                plain[i][j] = sum;                                                                                \
            }                                                                                                     \
        CHECK(memcmp(c, plain, sizeof c) == 0);                                                                   \
        THREE;                                                                                                    \
    }

#define AGAIN(TYPE)                                                                                               \
    memset(c, 0, sizeof c);                                                                                       \
    tw_three_loops_##TYPE(&a[0][0], &b[0][0], &c[0][0], M, N, K);                                                 \
    CHECK(memcmp(c, plain, sizeof c) == 0)

#define REAL ldexp((double)random_bits() - 0x1p31, -30)
TEST(fused_float32_float32, float, float, (float)REAL, fmaf(a[i][l], b[l][j], sum), AGAIN(float32))
TEST(fused_float64_float64, double, double, sqrt(fabs(REAL)), fma(a[i][l], b[l][j], sum), AGAIN(float64))
TEST(separate_float32_float32, float, float, (float)REAL, sum + a[i][l] * b[l][j], (void)0)
TEST(separate_float32_float64, float, double, (float)REAL, sum + (double)(a[i][l] * b[l][j]), (void)0)
TEST(separate_float64_float64, double, double, sqrt(fabs(REAL)), sum + a[i][l] * b[l][j], (void)0)
TEST(separate_int32_int32, int32_t, int32_t, (int32_t)random_bits(), sum + a[i][l] * b[l][j], AGAIN(int32))
TEST(separate_int64_int64, int64_t, int64_t, (int64_t)((uint64_t)random_bits() << 32), sum + a[i][l] * b[l][j], (void)0)

int main(void)
{
    test_fused_float32_float32();
    test_fused_float64_float64();
    test_separate_float32_float32();
    test_separate_float32_float64();
    test_separate_float64_float64();
    test_separate_int32_int32();
    test_separate_int64_int64();
    tw_three_loops_float32(0, 0, 0, 0, 5, 5);
    tw_ordered_fused_float32_float32(0, 0, 0, 5, 0, 5);
    return 0;
}
