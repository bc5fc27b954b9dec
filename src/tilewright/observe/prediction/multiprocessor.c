// Warps issue machine code through the partitions of one multiprocessor. `multiprocessor.py` states the model.

#include "asynchronous.h"
#include "barriers.h"
#include "orders.h"

#define INLINE static inline __attribute__((always_inline))

enum { NEVER = -1, REGISTER_WINDOW = 3 };

static const uint32_t NO_COUNTER = TW_SM_COUNTERS;

INLINE double later(double a, double b)
{
    return a > b ? a : b;
}

INLINE uint32_t cause_of(uint32_t kind)
{
    if (kind == TW_SM_SHARED)
        return TW_SM_WAITED_SHARED;
    return kind == TW_SM_SPECIAL ? TW_SM_WAITED_SPECIAL : TW_SM_WAITED_GLOBAL;
}

INLINE uint32_t free_pipe(const struct tw_sm_partition *partition, uint32_t pipes)
{
    uint32_t best = TW_SM_PIPES;
    for (; pipes; pipes &= pipes - 1) {
        uint32_t n = (uint32_t)__builtin_ctz(pipes);
        if (best == TW_SM_PIPES || partition->pipes[n] < partition->pipes[best])
            best = n;
    }
    return best;
}

INLINE const struct tw_sm_instruction *coming(const struct tw_sm *sm, const struct tw_sm_warp *warp)
{
    return &sm->code[sm->roles[warp->role].trace[warp->position]];
}

// The clock at which a warp's own earlier instructions allow its next one to issue, and which of them is the last;
// known once the instruction before it has issued.
static void look_ahead(const struct tw_sm *sm, struct tw_sm_warp *warp)
{
    if (warp->position == sm->roles[warp->role].length)
        return;
    const struct tw_sm_instruction *next = coming(sm, warp);
    warp->at = warp->ready;
    warp->why = warp->released ? TW_SM_WAITED_BARRIER : TW_SM_WAITED_STALL;
    for (uint32_t n = 0; n < TW_SM_COUNTERS; n++)
        if (next->waits >> n & 1 && warp->counters[n] > warp->at) {
            warp->at = warp->counters[n];
            warp->why = warp->causes[n];
        }
    if (next->kind == TW_SM_AWAIT && warp->committed > next->pending) {
        uint64_t until = warp->groups[(warp->committed - next->pending - 1) % TW_SM_GROUPS];
        if (until > warp->at) {
            warp->at = until;
            warp->why = TW_SM_WAITED_GLOBAL;
        }
    }
    if (next->kind == TW_SM_AWAIT_PRODUCTS && warp->grouped > next->pending) {
        uint64_t until = warp->products[(warp->grouped - next->pending - 1) % TW_SM_GROUPS];
        if (until > warp->at) {
            warp->at = until;
            warp->why = TW_SM_WAITED_PRODUCTS;
        }
    }
}

// The first clock at which a warp's next instruction can issue, and what delays it until then.
static uint64_t ready_at(const struct tw_sm *sm, const struct tw_sm_partition *partition, const struct tw_sm_warp *warp,
                         uint32_t *cause)
{
    uint64_t at = warp->at;
    *cause = warp->why;
    const struct tw_sm_instruction *next = coming(sm, warp);
    uint32_t pipe = free_pipe(partition, next->pipes);
    if (pipe < TW_SM_PIPES && partition->pipes[pipe] > at) {
        at = partition->pipes[pipe];
        *cause = TW_SM_WAITED_PIPE;
    }
    if (next->kind == TW_SM_PRODUCT && partition->asked - partition->started == TW_SM_PRODUCTS && at < FAR) {
        at = FAR;
        *cause = TW_SM_WAITED_PIPE;
    }
    if (next->kind == TW_SM_ORDER && is_full_of_orders(sm) && at < FAR) {
        at = FAR;
        *cause = TW_SM_WAITED_PIPE;
    }
    if ((next->kind >= TW_SM_SHARED && next->kind <= TW_SM_COPY) || next->kind == TW_SM_OPERATION) {
        uint64_t left = partition->queue[partition->queued % sm->queue_places];
        if (left > at) {
            at = left;
            *cause = TW_SM_WAITED_QUEUE;
        }
    }
    return at;
}

// The warp that issues now: the last one, else the youngest ready one. If there is none, `next` is the clock of the
// first possible issue, and `cause` what that warp waits for.
static struct tw_sm_warp *choose(struct tw_sm *sm, uint64_t number)
{
    struct tw_sm_partition *partition = &sm->partitions[number];
    uint32_t why, *cause = &partition->cause;
    uint64_t *next = &partition->next;
    if (*next > sm->clock)
        return 0;
    *cause = TW_SM_WAITED_NOTHING;
    *next = UINT64_MAX;
    if (partition->held > sm->clock) {
        *next = partition->held;
        *cause = TW_SM_WAITED_PORTS;
        return 0;
    }
    if (partition->last) {
        struct tw_sm_warp *warp = &sm->warps[partition->last - 1];
        if (warp->live && !warp->waiting && ready_at(sm, partition, warp, &why) <= sm->clock)
            return warp;
    }
    bool waiting = false;
    uint64_t turns = (sm->many + TW_SM_PARTITIONS - 1 - number) / TW_SM_PARTITIONS;
    while (turns--) {
        struct tw_sm_warp *warp = &sm->warps[number + turns * TW_SM_PARTITIONS];
        waiting |= warp->live && warp->waiting;
        if (!warp->live || warp->waiting)
            continue;
        uint64_t at = ready_at(sm, partition, warp, &why);
        if (at <= sm->clock)
            return warp;
        if (at < *next) {
            *next = at;
            *cause = why;
        }
    }
    if (waiting && *cause == TW_SM_WAITED_NOTHING)
        *cause = TW_SM_WAITED_BARRIER;
    return 0;
}

// Operands pass the ports of their banks within a window of clocks; what does not fit delays the partition.
static void read_registers(struct tw_sm *sm, struct tw_sm_partition *partition, const struct tw_sm_instruction *code,
                           uint64_t warp)
{
    uint64_t at = sm->clock, *reads = partition->reads;
    for (uint32_t bank = 0; bank < TW_SM_BANKS; bank++)
        reads[bank] = 0;
    for (uint32_t n = 0; n < TW_SM_OPERANDS; n++) {
        if (code->operands[n] < 0)
            continue;
        uint32_t bank = (uint32_t)code->operands[n] % TW_SM_BANKS;
        int64_t *kept = &partition->kept[bank * TW_SM_OPERANDS + n], wanted = (int64_t)(warp << 16) + code->operands[n];
        reads[bank] += *kept != wanted;
        *kept = code->reuse >> n & 1 ? wanted : NEVER;
    }
    for (uint32_t bank = 0; bank < TW_SM_BANKS; bank++) {
        uint64_t end = (partition->ports[bank] > at ? partition->ports[bank] : at) + reads[bank];
        if (reads[bank] && end > at + REGISTER_WINDOW)
            at = end - REGISTER_WINDOW;
    }
    for (uint32_t bank = 0; bank < TW_SM_BANKS; bank++)
        if (reads[bank])
            partition->ports[bank] = (partition->ports[bank] > at ? partition->ports[bank] : at) + reads[bank];
    if (at > sm->clock)
        partition->held = at + 1;
}

// A stage that all partitions share takes work as soon as it is free; returns when it starts.
static double take(double *stage, double *busy, double from, double clocks)
{
    double begin = later(from, *stage);
    *stage = begin + clocks;
    *busy += clocks;
    return begin;
}

// The clock at which a request's data have arrived.
static double served(struct tw_sm *sm, const struct tw_sm_instruction *code, double request)
{
    double begin = code->tags > 0 ? take(&sm->tags, &sm->busy[1], request, code->tags) : request;
    double looked_up = begin + (code->tags > 1 ? code->tags - 1 : 0);
    double data = take(&sm->data, &sm->busy[2], begin, code->wavefronts);
    double moved = data + (code->wavefronts > 1 ? code->wavefronts - 1 : 0);
    double end = later(looked_up, moved) + code->result_clocks;
    if (code->l2_sectors > 0 && code->kind != TW_SM_OPERATION) {
        double clocks = code->l2_sectors / sm->l2_sectors_per_clock;
        double missed = take(&sm->l2, &sm->busy[3], looked_up, clocks) + clocks;
        if (code->dram_sectors > 0) {
            clocks = code->dram_sectors / sm->dram_sectors_per_clock;
            missed = later(missed, take(&sm->dram, &sm->busy[4], looked_up, clocks) + clocks);
        }
        end = later(end, missed + code->miss_clocks);
    }
    return end;
}

static void count(struct tw_sm_warp *warp, uint32_t counter, double until, uint32_t cause)
{
    uint64_t clock = (uint64_t)(until + 0.999);
    if (counter < NO_COUNTER && clock > warp->counters[counter]) {
        warp->counters[counter] = clock;
        warp->causes[counter] = cause;
    }
}

static void access_memory(struct tw_sm *sm, struct tw_sm_partition *partition, struct tw_sm_warp *warp,
                          const struct tw_sm_instruction *code)
{
    double address = later(partition->address, (double)(sm->clock + sm->lead_clocks));
    partition->address = address + (double)sm->address_clocks;
    double request = take(&sm->requests, &sm->busy[0], address, (double)sm->request_clocks);
    partition->queue[partition->queued++ % sm->queue_places] = (uint64_t)request + sm->leave_clocks;
    double end = served(sm, code, request);
    if (code->kind == TW_SM_OPERATION) {
        count(warp, code->sets, end, TW_SM_WAITED_SHARED);
        do_deed(sm, warp, code, request, end);
    } else if (code->kind == TW_SM_COPY)
        warp->copied = (uint64_t)later((double)warp->copied, end + 0.999);
    else
        count(warp, code->sets, end, cause_of(code->kind));
    count(warp, code->frees, request + code->read_clocks, TW_SM_WAITED_QUEUE);
}

// Recomputes what partitions wait for after another partition's instruction.
static void look_again(struct tw_sm *sm)
{
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++)
        sm->partitions[n].next = 0;
}

static void issue(struct tw_sm *sm, struct tw_sm_partition *partition, struct tw_sm_warp *warp)
{
    const struct tw_sm_instruction *code = coming(sm, warp);
    uint64_t number = (uint64_t)(warp - sm->warps);
    uint32_t pipe = free_pipe(partition, code->pipes);
    partition->last = code->yields ? 0 : number + 1;
    warp->ready = sm->clock + (code->stall ? code->stall : 1);
    warp->released = 0;
    warp->position++;
    if (pipe < TW_SM_PIPES)
        partition->pipes[pipe] = sm->clock + code->interval;
    if (pipe == TW_SM_TENSOR)
        sm->busy[5] += (double)code->interval / (double)TW_SM_PARTITIONS;
    switch (code->kind) {
    case TW_SM_SPECIAL:
        count(warp, code->sets, (double)(sm->clock + code->result_clocks), TW_SM_WAITED_SPECIAL);
        count(warp, code->frees, (double)(sm->clock + code->read_clocks), TW_SM_WAITED_SPECIAL);
        break;
    case TW_SM_SHARED:
    case TW_SM_LOAD:
    case TW_SM_STORE:
    case TW_SM_COPY:
    case TW_SM_OPERATION:
        access_memory(sm, partition, warp, code);
        break;
    case TW_SM_BARRIER:
    case TW_SM_CLUSTER_ARRIVE:
    case TW_SM_CLUSTER_WAIT:
        come_to_barrier(sm, warp, number, code->kind, code->warps);
        break;
    case TW_SM_COMMIT:
        warp->groups[warp->committed++ % TW_SM_GROUPS] = warp->copied;
        break;
    case TW_SM_PRODUCT:
        ask_product(partition, warp, number, (uint64_t)(code - sm->code), code->ends);
        break;
    case TW_SM_ORDER:
        count(warp, code->frees, (double)(sm->clock + code->read_clocks), TW_SM_WAITED_QUEUE);
        give_order(sm, warp, code);
        break;
    default:
        read_registers(sm, partition, code, number);
    }
    if (warp->position == sm->roles[warp->role].length)
        leave(sm, warp);
    else {
        look_ahead(sm, warp);
        note_groups(sm, warp);
    }
}

// Handles the events of this clock.
static void step(struct tw_sm *sm)
{
    arrive(sm);
    multiply(sm);
    carry_out(sm);
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++) {
        struct tw_sm_partition *partition = &sm->partitions[n];
        struct tw_sm_warp *warp = choose(sm, n);
        partition->issued = warp != 0;
        if (warp) {
            issue(sm, partition, warp);
            partition->next = sm->clock + 1;
        }
    }
}

// The next clock with an event.
static uint64_t next_clock(const struct tw_sm *sm)
{
    uint64_t first = next_happening(sm);
    if (sm->begun < sm->ordered) {
        uint64_t order = next_order(sm);
        first = order < first ? order : first;
    }
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++)
        if (sm->partitions[n].next < first)
            first = sm->partitions[n].next;
    return first;
}

static void advance(struct tw_sm *sm, uint64_t clock)
{
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++) {
        const struct tw_sm_partition *partition = &sm->partitions[n];
        sm->clocks[partition->issued ? TW_SM_ISSUED : partition->cause] += clock - sm->clock;
    }
    sm->clock = clock;
}

static bool unfinished(const struct tw_sm *sms)
{
    for (uint64_t n = 0; n < sms->cluster_blocks; n++)
        if (sms[n].to_finish)
            return true;
    return false;
}

// Runs up to `clocks` clocks that have an issue, with the multiprocessors of a cluster side by side. 0: all blocks have
// ended; 1: there is more; 2: nothing can issue any more.
uint32_t tw_sm_run(struct tw_sm *sms, uint64_t clocks)
{
    uint64_t many = sms->cluster_blocks;
    while (unfinished(sms) && clocks--) {
        uint64_t first = UINT64_MAX;
        for (uint64_t n = 0; n < many; n++)
            step(&sms[n]);
        for (uint64_t n = 0; n < many; n++) {
            uint64_t next = next_clock(&sms[n]);
            first = next < first ? next : first;
        }
        if (first >= FAR)
            return 2;
        if (first <= sms->clock)  // another partition's instruction released it
            first = sms->clock + 1;
        for (uint64_t n = 0; n < many; n++)
            advance(&sms[n], first);
    }
    return unfinished(sms) ? 1 : 0;
}
