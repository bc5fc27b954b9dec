// Sets and vectors of lanes.

#include "check.h"
#include "simulate/runtime/lanes.h"

int main(void)
{
    const uint32_t sets[] = {0, 1, 1u << 31, UINT32_MAX, 0x80000001u, 0x12345678u};
    CHECK(tw_first_lane(0) == 32 && tw_first_lane(1u << 31) == 31 && tw_first_lane(12) == 2);
    CHECK(tw_other_lanes(12) == 8 && tw_other_lanes(8) == 0 && tw_lane_count(0x12345678u) == 13);
    for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        tw_i32_lanes narrow = tw_mask32(sets[i]);
        tw_i64_lanes wide = tw_mask64(sets[i]);
        for (int lane = 0; lane < 32; lane++) {
            CHECK(narrow[lane] == -(int32_t)(sets[i] >> lane & 1));
            CHECK(wide[lane] == narrow[lane]);
        }
        CHECK(tw_where32(narrow) == sets[i] && tw_where64(wide) == sets[i]);
    }
    CHECK(tw_where32(tw_lane_numbers() < 5) == 31);
    return 0;
}
