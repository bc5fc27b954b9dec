// How large the products in tensor memory are.

#include "simulate/runtime/instrument.h"
#include "simulate/runtime/tensor_shapes.h"

enum { TW_ROWS_SHIFT = 10 };

// Sums over the products of a site. The shapes are all the same if the sums of shapes and of their squares say so.
void tw_tensor_work_product(TW_WHERE, uint32_t mask, const struct tw_tensor_operands *operands, uint32_t kind,
                            uint32_t does)
{
    (void)kind, (void)does;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t instruction = (uint32_t)operands->instruction[tw_first_lane(left)];
        const uint64_t rows = tw_product_rows(instruction), columns = tw_product_columns(instruction);
        const uint64_t shape = rows << TW_ROWS_SHIFT | columns;
        counters[0]++;
        counters[1] += rows * columns;
        counters[2] += shape;
        counters[3] += shape * shape;
    }
}
