// Lists of the accesses of a cell by several warps: how they are made, and made room for.
//
// A list is a chain of accesses, each kept once with the chain behind it. An access that is ordered before a later one
// is left out, because what comes after the later one comes after it. If no place is free, those are freed to which no
// cell of shared memory leads. If that frees few, further lists do not keep lanes; if it often frees few, nor sites;
// and if it still does, there are no further lists. A sweep keeps the lists of global memory with an access after
// which some warp may not be ordered; if they are too many, it keeps none.

#include "clusters.h"
#include "several.h"

// A list that is made: its number, 0 if there was no room for it, and what a cell says of it.
struct making {
    uint64_t least;
    uint64_t latest;
    uint64_t strong;
    uint32_t number;
    bool failed;
};

static uint32_t bucket_of(uint64_t cell, uint32_t next)
{
    return (uint32_t)((cell ^ (uint64_t)next << 48) * UINT64_C(0x9E3779B97F4A7C15) >> 32) % TW_BUCKETS;
}

static bool is_marked(const struct tw_several *several, uint32_t number)
{
    return several->marked[number / 64] >> number % 64 & 1;
}

static void mark_list(struct tw_several *several, uint32_t number)
{
    for (; number && !is_marked(several, number); number = several->of[number].next)
        several->marked[number / 64] |= UINT64_C(1) << number % 64;
}

// The latest clock of a list.
static uint64_t latest_in(const struct tw_several *several, uint32_t number)
{
    uint64_t latest = 0;
    for (; number; number = several->of[number].next) {
        uint64_t its = several->of[number].cell >> TW_CLOCK_SHIFT;
        latest = its > latest ? its : latest;
    }
    return latest;
}

static uint32_t marked_in(const struct tw_several *several)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TW_SITE_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(several->marked[i]);
    return count;
}

// Mark lists of cells of global memory with an access that not all warps know which still run; none if they are many.
static void mark_global(const struct tw_shadow_launch *launch, struct tw_shadow_block *home)
{
    struct tw_several *several = several_of(launch, home);
    uint64_t known = UINT64_MAX, others[TW_SITE_WORDS] __attribute__((aligned(16)));
    __builtin_memcpy(others, several->marked, sizeof others);
    for (uint32_t w = 0; w < launch->warps; w++)
        if (!home->gone.of[w] && home->clocks[w].limit < known)
            known = home->clocks[w].limit;
    for (uint32_t number = 1; number < TW_SITE_MAX; number++)
        if (several->of_global[number / 64] >> number % 64 & 1 && latest_in(several, number) >= known >> TW_CLOCK_SHIFT)
            mark_list(several, number);
    if (marked_in(several) > TW_MANY_LISTS)
        __builtin_memcpy(several->marked, others, sizeof others);
    for (uint32_t i = 0; i < TW_SITE_WORDS; i++)
        several->of_global[i] &= several->marked[i];
}

static void mark_cells(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, const uint64_t *cells)
{
    uint64_t count = (launch->shared_reads - sizeof *home) / sizeof *cells;
    for (uint64_t c = 0; c < count; c++)
        mark_list(several_of(launch, home), list_of(launch, is_far(cells[c]) ? near_cell(cells[c]) : cells[c]));
}

// Free what no cell of the block leads to, nor a list that is being made.
static void sweep(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint32_t making)
{
    struct tw_several *several = several_of(launch, home);
    __builtin_memset(several->marked, 0, sizeof several->marked);
    mark_list(several, making);
    mark_cells(launch, home, home->writes);
    mark_cells(launch, home, (const uint64_t *)((const char *)home + launch->shared_reads));
    if (launch->far_reads)
        mark_cells(launch, home, (const uint64_t *)((const char *)home + launch->far_reads));
    uint32_t kept = marked_in(several);
    mark_global(launch, home);
    several->sweeps++;
    __builtin_memset(several->first, 0, sizeof several->first);
    for (uint32_t number = 1; number < TW_SITE_MAX; number++) {
        struct tw_one_access *place = &several->of[number];
        if (!is_marked(several, number)) {
            place->cell = 0;
            continue;
        }
        uint32_t *first = &several->first[bucket_of(place->cell, place->next)];
        place->beside = *first;
        *first = number;
    }
    several->used = 0;
    if (kept > TW_MANY_LISTS)
        several->blurred++;
}

// The next free place, or 0.
static uint32_t free_place(struct tw_several *several)
{
    while (several->used < TW_SITE_MAX - 1)
        if (!several->of[++several->used].cell)
            return several->used;
    return 0;
}

// The list of an access by a higher warp before another list; 0 if there is no room.
static uint32_t list(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t cell, uint32_t next)
{
    struct tw_several *several = several_of(launch, home);
    uint32_t warp = warp_of(who_of(cell)), its = (uint32_t)(cell >> TW_CLOCK_SHIFT);
    if (several->blurred && !in_flight(cell))
        cell = (cell & ~(uint64_t)TW_WHO_MASK) | TW_THREAD_MAX | warp;
    if (several->blurred >= TW_BLURRED_SITES && !in_flight(cell))
        cell |= TW_SITES;
    uint32_t bucket = bucket_of(cell, next);
    for (uint32_t number = several->first[bucket]; number; number = several->of[number].beside)
        if (several->of[number].cell == cell && several->of[number].next == next)
            return number;
    uint32_t number = free_place(several);
    if (!number && several->blurred < TW_BLURRED_MAX) {
        sweep(launch, home, next);
        number = free_place(several);
    }
    if (number) {
        const struct tw_one_access *rest = &several->of[next];
        several->of[number] = (struct tw_one_access){
            .cell = cell,
            .next = (uint16_t)next,
            .born = (uint16_t)several->sweeps,
            .beside = several->first[bucket],
            .warps = in_flight(cell) ? UINT32_MAX : 1u << warp | (next ? rest->warps : 0),
            .least = next && rest->least < its ? rest->least : its,
        };
        several->first[bucket] = number;
    }
    return number;
}

static void add(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, struct making *made, uint64_t one)
{
    uint64_t its = one >> TW_CLOCK_SHIFT;
    made->latest = its > made->latest ? its : made->latest;
    made->least = its < made->least ? its : made->least;
    made->strong &= one;
    made->number = made->failed ? 0 : list(launch, home, one, made->number);
    made->failed |= !made->number;
}

static uint64_t cell_of(const struct making *made)
{
    uint64_t upper = made->failed ? made->least << TW_CLOCK_SHIFT | TW_SITES
                                  : made->latest << TW_CLOCK_SHIFT | (uint64_t)made->number << TW_SITE_SHIFT;
    return upper | made->strong | TW_SEVERAL_WARPS;
}

// Of the accesses of a cell, of each warp one and from place TW_WARPS_MAX on of its copies in flight one.
enum { PLACES = 2 * TW_WARPS_MAX };

// Put down an access; returns a bit for its place.
static inline uint64_t put_one(uint64_t *ones, uint64_t one)
{
    uint32_t place = warp_of(who_of(one)) + (in_flight(one) ? TW_WARPS_MAX : 0);
    ones[place] = one;
    return UINT64_C(1) << place;
}

// The list of some accesses.
static struct making made_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, const uint64_t *ones,
                             uint64_t which)
{
    struct making made = {.least = UINT64_MAX, .strong = TW_STRONG};
    for (uint64_t left = which; left; left &= left - 1)
        add(launch, home, &made, ones[__builtin_ctzll(left)]);
    return made;
}

// The cell of some accesses and one more; what to take if there is no room for a list and a copy is in flight.
__attribute__((noinline)) static uint64_t cell_of_all(const struct tw_shadow_launch *launch,
                                                      struct tw_shadow_block *home, uint64_t *ones, uint64_t others,
                                                      uint64_t one, uint64_t otherwise)
{
    uint64_t which = others | put_one(ones, one);
    bool flies = which >> TW_WARPS_MAX != 0;
    if (!flies && !(which & (which - 1)))
        return ones[__builtin_ctzll(which)];
    struct making made = made_of(launch, home, ones, which);
    return made.failed && flies ? otherwise : cell_of(&made);
}

uint64_t tw_shadow_join(const struct access *me, uint64_t cell, uint64_t mine)
{
    const uint64_t before = cell;
    uint64_t ones[PLACES], which = 0, own = mine;
    if (!me->launch->several_at || (who_of(cell) == TW_SEVERAL_WARPS && !list_of(me->launch, cell)))
        return keeps(me, cell) ? cell : is_unordered(me, cell, false) ? both(me, cell, mine) : mine;
    if (is_in_list(me, cell, mine))
        return cell;
    while (cell) {
        uint64_t one = take(me, &cell);
        bool flies = in_flight(one), unordered = !flies && is_unordered(me, one, false), kept = flies || keeps(me, one);
        if (!flies && is_alike(me, one))
            own = kept ? one : unordered ? both(me, one, mine) : mine;
        else if (unordered || kept)
            which |= put_one(ones, one);
    }
    return cell_of_all(me->launch, me->home, ones, which, own, before);
}

uint64_t tw_shadow_join_global(const struct access *me, uint64_t cell, uint32_t *number, uint64_t mine)
{
    uint64_t ones[PLACES], which = 0, own = mine, limit = me->block->clocks[me->warp].limit;
    struct tw_several *several = several_of(me->launch, me->block);
    uint64_t rest = *number ? (uint64_t)*number << TW_SITE_SHIFT | TW_SEVERAL_WARPS : cell;
    *number = 0;
    if (who_of(rest) == TW_SEVERAL_WARPS && !list_of(me->launch, rest))
        return is_unordered(me, cell, false) ? both(me, cell, mine) : mine;
    while (rest) {
        uint64_t one = take(me, &rest);
        bool hides = me->strong && !(one & TW_STRONG), unordered = is_unordered(me, one, false);
        if (is_ours(me, one))
            own = hides ? one : unordered ? both(me, one, mine) : mine;
        else if (unordered || (hides && one >= limit))
            which |= put_one(ones, one);
    }
    which |= put_one(ones, own);
    if (!(which & (which - 1)))
        return ones[__builtin_ctzll(which)];
    struct making made = made_of(me->launch, me->block, ones, which);
    *number = made.number;
    for (uint32_t next = made.number; next; next = several->of[next].next)
        several->of_global[next / 64] |= UINT64_C(1) << next % 64;
    return made.least << TW_CLOCK_SHIFT | TW_SITES | made.strong | TW_SEVERAL_WARPS;
}

uint64_t tw_shadow_hold(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t cell,
                        uint64_t flight)
{
    uint64_t ones[PLACES], which = 0;
    while (cell && (who_of(cell) != TW_SEVERAL_WARPS || list_of(launch, cell)))
        which |= put_one(ones, take_from(launch, home, &cell));
    return cell_of_all(launch, home, ones, which, flight, (flight & ~(uint64_t)TW_WHO_MASK) | TW_FLIGHT_WHO);
}

// An access of a warp and one by other lanes of it.
static uint64_t with_lanes(uint64_t one, uint64_t mine)
{
    uint64_t its = one >> TW_CLOCK_SHIFT, now = mine >> TW_CLOCK_SHIFT;
    uint64_t site = (one ^ mine) & TW_SITES ? TW_SITES : mine & TW_SITES;
    uint32_t who = both_parts(who_of(one), who_of(mine), warp_of(who_of(mine)));
    return (its < now ? its : now) << TW_CLOCK_SHIFT | (one & mine & TW_STRONG) | site | who;
}

uint64_t tw_shadow_let_go(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t cell,
                          uint64_t flight, uint64_t landed)
{
    const uint64_t before = cell;
    uint64_t ones[PLACES], which = 0, own = landed;
    bool found = false;
    if (((cell ^ flight) & ~(uint64_t)TW_WHO_MASK) == 0)  // there was no room for a list
        return landed;
    while (list_of(launch, cell)) {
        uint64_t one = take_from(launch, home, &cell);
        if (one == flight)
            found = true;
        else if (in_flight(one) || warp_of(who_of(one)) != warp_of(who_of(landed)))
            which |= put_one(ones, one);
        else if (who_of(one) != who_of(landed))
            own = with_lanes(one, landed);
    }
    return found ? cell_of_all(launch, home, ones, which, own, landed) : before;
}

uint64_t tw_shadow_join_level(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint32_t warp,
                              uint64_t limit, uint64_t cell, uint64_t mine)
{
    const struct tw_one_access *first = &several_of(launch, home)->of[list_of(launch, cell)];
    uint64_t its = cell >> TW_CLOCK_SHIFT, now = mine >> TW_CLOCK_SHIFT, own = mine;
    const uint64_t before = cell;
    uint32_t number = list_of(launch, cell);
    uint64_t ones[PLACES], which = 0;
    if (in_flight(cell) && !number)
        return cell;
    if (who_of(cell) == TW_SEVERAL_WARPS && !number)
        return cell_of(&(struct making){its < now ? its : now, 0, cell & mine & TW_STRONG, 0, true});
    if (number && first->warps >> warp == 0 && first->least >= limit >> TW_CLOCK_SHIFT) {
        struct making made = {first->least, its, cell & TW_STRONG, number, false};
        add(launch, home, &made, mine);
        return cell_of(&made);
    }
    while (cell) {
        uint64_t one = take_from(launch, home, &cell);
        uint32_t who = who_of(one);
        if (in_flight(one) || (one >= limit && warp_of(who) != warp))
            which |= put_one(ones, one);
        else if (one >= limit && (who != who_of(mine) || who >= TW_THREAD_MAX))
            own = with_lanes(one, mine);
    }
    return cell_of_all(launch, home, ones, which, own, before);
}
