// Orders to tensor memory: products, copies of shared memory, and commits, which a multiprocessor begins one by one.

#ifndef TILEWRIGHT_PREDICTION_ORDERS_H
#define TILEWRIGHT_PREDICTION_ORDERS_H

#include "asynchronous.h"

// The multiprocessor of the other block of a pair; without a pair the same one.
static struct tw_sm *partner(const struct tw_sm *sm, bool paired)
{
    uint64_t rank = (uint64_t)(sm - sm->cluster), other = rank ^ 1;
    return &sm->cluster[paired && other < sm->cluster_blocks ? other : rank];
}

// The clock at which all tensor cores of a multiprocessor are free.
static uint64_t cores_free(const struct tw_sm *sm)
{
    uint64_t last = 0;
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++)
        if (sm->partitions[n].pipes[TW_SM_TENSOR] > last)
            last = sm->partitions[n].pipes[TW_SM_TENSOR];
    return last;
}

// The clock at which the next order can begin. Commits wait for nothing but their turn.
static uint64_t next_order(const struct tw_sm *sm)
{
    const struct tw_sm_order *order = &sm->orders[sm->begun % TW_SM_ORDERS];
    if (order->operation->kind == TW_SM_OP_COMMIT)
        return sm->clock;
    uint64_t own = cores_free(sm), other = cores_free(partner(sm, sm->code[order->code].pair));
    return own > other ? own : other;
}

// Clocks in which shared memory delivers lines.
static double reading(const struct tw_sm *sm, double lines)
{
    return lines * (double)TW_SM_LINE_BYTES / sm->data_bytes_per_clock;
}

// Occupies the tensor cores of a multiprocessor, which read so many lines of shared memory meanwhile. Returns when both
// have ended.
static double occupy(struct tw_sm *sm, double clocks, double lines)
{
    double now = (double)sm->clock, each = reading(sm, lines), end = now + clocks;
    double read = take(&sm->data, &sm->busy[2], now, each) + each;
    if (read > end)
        end = read;
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++)
        sm->partitions[n].pipes[TW_SM_TENSOR] = (uint64_t)(end + 0.999);
    sm->busy[5] += clocks;
    return end;
}

// A product multiplies while it reads B; A it reads before, while the product before it multiplies. So it is complete
// that much later than the tensor cores are free.
static double begin_product(struct tw_sm *sm, const struct tw_sm_instruction *code,
                            const struct tw_sm_operation *operation)
{
    struct tw_sm *other = partner(sm, code->pair);
    double of_a = operation->number >> TW_SM_LINES_SHIFT, columns = operation->number & ((1u << TW_SM_LINES_SHIFT) - 1);
    double clocks = columns * code->column_clocks, of_b = operation->lanes;
    double end = occupy(sm, clocks, of_a + of_b), later = (double)sm->clock + clocks;
    if (other != sm) {
        double also = occupy(other, clocks, of_a + of_b);
        end = also > end ? also : end;
        later += (double)sm->pair_clocks;
    }
    later += reading(sm, of_a);
    return (later > end ? later : end) + (double)sm->product_clocks;
}

static double begin_copy(struct tw_sm *sm, const struct tw_sm_instruction *code,
                         const struct tw_sm_operation *operation)
{
    struct tw_sm *other = partner(sm, code->pair);
    double lines = (double)operation->number * operation->lanes / (double)TW_SM_LINE_BYTES, end = occupy(sm, 0, lines);
    if (other != sm) {
        double also = occupy(other, 0, lines);
        end = also > end ? also : end;
    }
    return end + (double)sm->product_clocks;
}

// Begins the orders whose turn it is. A commit arrives when all before it are complete.
static void carry_out(struct tw_sm *sm)
{
    while (sm->begun < sm->ordered && next_order(sm) <= sm->clock) {
        const struct tw_sm_order *order = &sm->orders[sm->begun++ % TW_SM_ORDERS];
        const struct tw_sm_instruction *code = &sm->code[order->code];
        const struct tw_sm_operation *operation = order->operation;
        if (operation->kind == TW_SM_OP_COMMIT) {
            uint64_t place;
            struct tw_sm *to = owner(sm, &sm->warps[order->warp], operation->place, &place);
            double at = sm->complete > (double)sm->clock ? sm->complete : (double)sm->clock;
            at += to == sm ? 0 : (double)sm->remote_clocks;
            expect(to, (struct tw_sm_arrival){at, 0, 0, 0, place, operation->number, 0});
        } else {
            double end = operation->kind == TW_SM_OP_FILL ? begin_copy(sm, code, operation)
                                                          : begin_product(sm, code, operation);
            sm->complete = end > sm->complete ? end : sm->complete;
        }
        look_again(sm);
    }
}

static bool is_full_of_orders(const struct tw_sm *sm)
{
    return sm->ordered - sm->begun > TW_SM_ORDERS - TW_SM_ORDERS_EACH;
}

// An instruction gives orders: one, or one of each lane.
static void give_order(struct tw_sm *sm, struct tw_sm_warp *warp, const struct tw_sm_instruction *code)
{
    const struct tw_sm_operation *operation;
    do {
        operation = &sm->roles[warp->role].operations[warp->operation++];
        if (operation->kind >= TW_SM_OP_MULTIPLY && sm->ordered - sm->begun < TW_SM_ORDERS)
            sm->orders[sm->ordered++ % TW_SM_ORDERS] =
                (struct tw_sm_order){operation, (uint64_t)(code - sm->code), (uint64_t)(warp - sm->warps)};
    } while (operation->more);
}

#endif
