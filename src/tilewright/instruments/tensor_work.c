// What a launch asks of tensor memory: how large its products are, and how many columns one of its blocks has at once.

#include "simt/runtime/instrument.h"
#include "simt/runtime/tensor_memory.h"
#include "simt/runtime/tensor_shapes.h"

// Sums over the products of a site: of a site whose products are all alike, they give the shape.
void tw_tensor_work_product(TW_WHERE, uint32_t mask, const struct tw_tensor_operands *operands, uint32_t kind,
                            uint32_t does)
{
    (void)kind, (void)does;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t instruction = (uint32_t)operands->instruction[tw_first_lane(left)];
        const uint64_t rows = tw_product_rows(instruction), columns = tw_product_columns(instruction);
        counters[0]++;
        counters[1] += rows;
        counters[2] += columns;
        counters[3] += rows * columns;
    }
}

// A block is about to get columns beside those that it has.
void tw_tensor_work_allocated(TW_WHERE, uint32_t mask, uint32_t columns)
{
    uint64_t *most = launch, before = __atomic_load_n(most, __ATOMIC_RELAXED);
    const uint64_t together = (uint64_t)tw_lane_count(slot->tensor_taken) * TW_TENSOR_UNIT + columns;
    while (before < together &&
           !__atomic_compare_exchange_n(most, &before, together, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
