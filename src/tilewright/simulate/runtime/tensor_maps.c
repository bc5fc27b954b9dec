// Tensor maps that kernels change and copy. Nothing is checked here: copies of tensors check every field of the map.

#include "runtime.h"

// Bytes and driver's numbers of the types that kernels number themselves; 0 bytes for those that no copy takes. Source:
// PTX ISA, 9.7.9.27 (tensormap.replace, "Validity of new_val"): u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32.
static void set_type(struct tw_tensor_map *map, uint64_t type)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 0, 8, 2, 4};
    static const uint8_t numbers[] = {0, 1, TW_UINT32, TW_INT32, TW_UINT64, TW_INT64, TW_FLOAT16, TW_FLOAT32, 0,
                                      TW_FLOAT64, TW_BFLOAT16, TW_TFLOAT32};
    const bool known = type < sizeof bytes;
    map->element_bytes = known ? bytes[type] : 0;
    map->type = known ? numbers[type] : 0;
}

// The value of elements outside: zeros, or the NaN of the elements' width.
static void set_fill(struct tw_tensor_map *map, bool nans)
{
    const uint64_t each = map->element_bytes == 2   ? 0x7fff7fff7fff7fff
                          : map->element_bytes == 4 ? 0x7fffffff7fffffff
                                                    : 0x7fffffffffffffff;
    map->filler = nans && map->element_bytes > 1 ? each : 0;
}

static void set_field(struct tw_tensor_map *map, uint32_t field, uint32_t axis, uint64_t value)
{
    const bool nans = map->filler != 0;
    map->magic = TW_TENSOR_MAGIC;  // a map may be made of zeros
    if (field == TW_MAP_ADDRESS)
        map->address = value;
    else if (field == TW_MAP_RANK)
        map->rank = (uint32_t)value + 1;
    else if (field == TW_MAP_BOX)
        map->box[axis] = (uint32_t)value;
    else if (field == TW_MAP_EXTENT)
        map->extents[axis] = (uint32_t)value;
    else if (field == TW_MAP_STRIDE && axis < TW_TENSOR_AXES - 1)
        map->strides[axis] = value;
    else if (field == TW_MAP_STEP)
        map->steps[axis] = (uint16_t)(value <= UINT16_MAX ? value : 0);
    else if (field == TW_MAP_TYPE)
        set_type(map, value);
    else if (field == TW_MAP_INTERLEAVE && value != 0)
        map->rank = 0;  // only maps without them are supported
    else if (field == TW_MAP_SWIZZLE)
        map->units = value < 4 ? (uint16_t)(1 << value) : 0;
    if (field == TW_MAP_FILL || field == TW_MAP_TYPE)
        set_fill(map, field == TW_MAP_FILL ? value != 0 : nans);
}

// Lanes change a field of their maps; `axis` for a field that each axis has.
void tw_map_replace(uint32_t mask, char *const *maps, uint32_t field, uint32_t axis, const uint64_t *values)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        struct tw_tensor_map map;
        __builtin_memcpy(&map, maps[lane], sizeof map);
        set_field(&map, field, axis, values[lane]);
        __builtin_memcpy(maps[lane], &map, sizeof map);
    }
}

void tw_map_copy(uint32_t mask, char *const *to, char *const *from)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        __builtin_memmove(to[lane], from[lane], sizeof(struct tw_tensor_map));
    }
}
