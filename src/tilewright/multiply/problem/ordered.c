// Sums of products in ascending k: `ordered.py` says what for. Neighbouring columns of C go side by side in a vector;
// each element still sees its own k from 0 upwards.

#include <stdint.h>

enum { COLUMNS = 32 };

// Neighbouring elements of a row, aligned as one of them is.
typedef float row_float32 __attribute__((vector_size(4 * COLUMNS), aligned(4)));
typedef double row_float64 __attribute__((vector_size(8 * COLUMNS), aligned(8)));
typedef int32_t row_int32 __attribute__((vector_size(4 * COLUMNS), aligned(4)));
typedef int64_t row_int64 __attribute__((vector_size(8 * COLUMNS), aligned(8)));

// One rounding. `x - 0` is x, -0 too, in every element.
#ifdef __clang__
#define FUSED(TOTAL, sum, x, y) __builtin_elementwise_fma((x) - (TOTAL){0}, y, sum)
#else
#define FUSED(TOTAL, sum, x, y)                                                                                  \
    ({                                                                                                           \
        TOTAL next = sum;                                                                                        \
        for (int each = 0; each < COLUMNS; each++)                                                               \
            next[each] = _Generic(x, float: __builtin_fmaf, double: __builtin_fma)(x, (y)[each], next[each]);    \
        next;                                                                                                    \
    })
#endif
// A product of the operands' type, rounded, and a sum of its own; of integers, both wrap.
#define SEPARATE(TOTAL, sum, x, y) (sum) + __builtin_convertvector((x) * (y), TOTAL)

// c (m, n) from a (m, k) and b (n / COLUMNS, k, COLUMNS), contiguous.
#define SUMS(NAME, STEP, ELEMENT, PRODUCT, TOTAL)                                                                \
    void tw_ordered_##NAME(const ELEMENT *a, const PRODUCT *b, TOTAL *c, int64_t m, int64_t n, int64_t k)        \
    {                                                                                                            \
        int64_t panels = n / COLUMNS;                                                                            \
        for (int64_t panel = 0; panel < panels; panel++)                                                         \
            for (int64_t i = 0; i < m; i++) {                                                                    \
                TOTAL sum = {0};                                                                                 \
                for (int64_t l = 0; l < k; l++)                                                                  \
                    sum = STEP(TOTAL, sum, a[i * k + l], b[panel * k + l]);                                      \
                c[i * panels + panel] = sum;                                                                     \
            }                                                                                                    \
    }

SUMS(fused_float32_float32, FUSED, float, row_float32, row_float32)
SUMS(fused_float64_float64, FUSED, double, row_float64, row_float64)
SUMS(separate_float32_float32, SEPARATE, float, row_float32, row_float32)
SUMS(separate_float32_float64, SEPARATE, float, row_float32, row_float64)
SUMS(separate_float64_float64, SEPARATE, double, row_float64, row_float64)
SUMS(separate_int32_int32, SEPARATE, int32_t, row_int32, row_int32)
SUMS(separate_int64_int64, SEPARATE, int64_t, row_int64, row_int64)
