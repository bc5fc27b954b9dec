// Reads of textures, and reads and writes of surfaces: each lane that runs for itself.
//
// Source: CUDA C++ Programming Guide, "Texture Fetching" (nearest points, linear filtering with shares of 8 fraction
// bits, address modes, faces of cubes) and "Surface Functions"; PTX ISA, 9.7.10 and 9.7.11.

#include "runtime.h"

enum { CHANNELS = 4, COORDINATES = 4, NONE = -1 };
static const float MOST = 1 << 30;  // whole numbers of coordinates end here

// Targets align arrays of a function's own in different ways, unless aligned explicitly.
#define OWN __attribute__((aligned(16)))

struct fetch {
    struct tw_context *context;
    const struct tw_warp *warp;
    uint64_t base;  // device address of global memory's first byte
    uint64_t handle;
    uint32_t site;
    uint32_t lane;
    bool failed;
    struct tw_texture of;
};

// Along one axis: the two elements that are mixed, `NONE` outside, and the share of the second.
struct point {
    int64_t at[2];
    float share;
};

static bool is_outside(const struct fetch *f, uint64_t at, uint64_t bytes)
{
    const uint64_t limit = f->context->global_limit;
    return at > limit || bytes > limit - at;
}

// A lane breaks a rule at a device address.
static void fault(struct fetch *f, uint64_t address, uint32_t bytes)
{
    uint64_t addresses[TW_LANES] OWN;
    addresses[f->lane] = address;
    tw_fault(f->context, f->warp, f->site, 1u << f->lane, addresses, bytes);
    f->failed = true;
}

// Whether a record can be read: any kernel may write one, and what follows divides by its extents and copies its bits.
static bool is_whole(const struct tw_texture *of)
{
    const bool sized = of->bits == 8 || of->bits == 16 || of->bits == 32;
    const bool filled = of->channels >= 1 && of->channels <= CHANNELS;
    return of->magic == TW_TEXTURE_MAGIC && sized && filled && of->extents[0] && of->extents[1] && of->extents[2];
}

static struct fetch started(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lane,
                          uint64_t handle, uint64_t base)
{
    struct fetch f = {.context = context, .warp = warp, .base = base, .handle = handle, .site = site, .lane = lane};
    if (handle < base || is_outside(&f, handle - base, sizeof f.of)) {
        fault(&f, handle, 1);
        return f;
    }
    __builtin_memcpy(&f.of, context->global_base + (handle - base), sizeof f.of);
    if (!is_whole(&f.of))
        fault(&f, handle, 1);
    return f;
}

static uint32_t element_bytes(const struct fetch *f)
{
    return f->of.channels * f->of.bits / 8;
}

static float as_float(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t as_bits(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int64_t floor_of(float x)
{
    if (!(x > -MOST))
        return x < 0 ? (int64_t)-MOST : 0;
    if (x > MOST)
        return (int64_t)MOST;
    const int64_t whole = (int64_t)x;
    return (float)whole > x ? whole - 1 : whole;
}

// The float of a float16's bits.
static float half(uint32_t bits)
{
    const uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 0) {
        const float small = (float)fraction / (1 << 24);
        return sign ? -small : small;
    }
    return as_float(sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13);
}

// A channel's value, as a float where it is one or becomes one.
static uint32_t channel(const struct fetch *f, const char *element, uint32_t number)
{
    const struct tw_texture *of = &f->of;
    uint32_t bits = 0;
    __builtin_memcpy(&bits, element + number * of->bits / 8, of->bits / 8);
    if (of->elements == TW_ELEMENTS_FLOAT)
        return of->bits == 16 ? as_bits(half(bits)) : bits;
    const bool is_signed = of->elements == TW_ELEMENTS_SIGNED;
    const int32_t value = (int32_t)(bits << (32 - of->bits)) >> (32 - of->bits);
    if (!(of->does & TW_TEXTURE_FRACTIONS) || of->bits > 16)
        return is_signed ? (uint32_t)value : bits;
    const float most = (float)((1u << (of->bits - is_signed)) - 1);
    const float share = is_signed ? (float)value / most : (float)bits / most;
    return as_bits(share < -1 ? -1 : share);
}

// The channels of an element; those of the border outside.
static void element(struct fetch *f, int64_t x, int64_t y, int64_t z, uint32_t *channels)
{
    const struct tw_texture *of = &f->of;
    const uint32_t bytes = element_bytes(f);
    for (uint32_t i = 0; i < CHANNELS; i++)
        channels[i] = x == NONE || y == NONE || z == NONE ? as_bits(of->border[i]) : 0;
    if (x == NONE || y == NONE || z == NONE)
        return;
    const uint64_t at = of->address + (uint64_t)z * of->plane_bytes + (uint64_t)y * of->row_bytes + (uint64_t)x * bytes;
    if (is_outside(f, at - f->base, bytes)) {
        fault(f, at, 1);
        return;
    }
    for (uint32_t i = 0; i < of->channels; i++)
        channels[i] = channel(f, f->context->global_base + (at - f->base), i);
}

// The element that a number beyond the ends means.
static int64_t within(int64_t number, int64_t extent, uint32_t mode)
{
    if (number >= 0 && number < extent)
        return number;
    if (mode == TW_BORDER)
        return NONE;
    if (mode == TW_WRAP)
        return ((number % extent) + extent) % extent;
    return number < 0 ? 0 : extent - 1;
}

static struct point point_of(const struct fetch *f, float x, uint32_t axis, bool linear)
{
    const int64_t extent = f->of.extents[axis];
    const uint32_t mode = f->of.modes[axis];
    if (f->of.does & TW_TEXTURE_NORMALIZED) {
        const int64_t turns = floor_of(x);
        if (mode == TW_WRAP || mode == TW_MIRROR)
            x = x >= MOST || x <= -MOST ? 0 : x - (float)turns;  // so large a number has no fraction
        if (mode == TW_MIRROR && turns & 1)
            x = 1 - x;
        x *= (float)extent;
    }
    if (linear)
        x -= 0.5f;
    const int64_t first = floor_of(x);
    const float rest = x - (float)first;  // none where `x` is NaN, or beyond what `floor_of` gives
    const float share = linear && rest > 0 && rest < 1 ? (float)floor_of(rest * 256 + 0.5f) / 256 : 0;
    return (struct point){{within(first, extent, mode), within(first + 1, extent, mode)}, share};
}

// An element by its number; beyond the ends it is the border.
static struct point point_at(const struct fetch *f, uint32_t bits, uint32_t axis)
{
    const int64_t number = within((int32_t)bits, f->of.extents[axis], TW_BORDER);
    return (struct point){{number, number}, 0};
}

static void mix(struct fetch *f, const struct point *points, uint32_t axes, uint32_t *out)
{
    float sums[CHANNELS] OWN = {0};
    for (uint32_t corner = 0; corner < 1u << axes; corner++) {
        float share = 1;
        int64_t at[TW_TEXTURE_AXES] OWN;
        for (uint32_t axis = 0; axis < TW_TEXTURE_AXES; axis++) {
            const uint32_t side = axis < axes ? corner >> axis & 1 : 0;
            at[axis] = points[axis].at[side];
            if (axis < axes)
                share *= side ? points[axis].share : 1 - points[axis].share;
        }
        uint32_t channels[CHANNELS] OWN;
        if (share == 0)
            continue;
        element(f, at[0], at[1], at[2], channels);
        for (uint32_t i = 0; i < CHANNELS; i++)
            sums[i] += share * as_float(channels[i]);
    }
    for (uint32_t i = 0; i < CHANNELS; i++)
        out[i] = as_bits(sums[i]);
}

// One component of the four elements that linear filtering would mix, against the clock from the lower left one.
static void gather(struct fetch *f, const float *at, uint32_t component, uint32_t *out)
{
    const struct point x = point_of(f, at[0], 0, true), y = point_of(f, at[1], 1, true);
    for (uint32_t i = 0; i < CHANNELS; i++) {
        uint32_t channels[CHANNELS] OWN;
        element(f, x.at[i == 1 || i == 2], y.at[i < 2], 0, channels);
        out[i] = channels[component];
    }
}

// The face of a cube that a direction meets, and where: from 0 to 1.
static uint32_t face_of(float *at)
{
    const float x = at[0], y = at[1], z = at[2];
    const float ax = x < 0 ? -x : x, ay = y < 0 ? -y : y, az = z < 0 ? -z : z;
    uint32_t face;
    float s, t, m;
    if (ax >= ay && ax >= az)
        face = x < 0, m = ax, s = x < 0 ? z : -z, t = -y;
    else if (ay >= az)
        face = 2 + (y < 0), m = ay, s = x, t = y < 0 ? -z : z;
    else
        face = 4 + (z < 0), m = az, s = z < 0 ? -x : x, t = -y;
    at[0] = (s / m + 1) / 2, at[1] = (t / m + 1) / 2;
    return face;
}

static uint32_t layer_of(const struct fetch *f, uint32_t number, uint32_t faces)
{
    const uint32_t most = f->of.extents[2] / faces;
    return most == 0 ? 0 : number < most ? number : most - 1;
}

// What a lane reads: `coordinates` are bits, of the layer first, where there are layers.
static void read(struct fetch *f, const uint32_t *coordinates, uint32_t geometry, uint32_t *out)
{
    uint32_t axes = geometry & 3, layer = 0;
    const uint32_t first = (geometry & TW_LAYERED) != 0;
    const bool linear = (f->of.does & TW_TEXTURE_LINEAR) && !(geometry & TW_INTEGERS);
    float at[COORDINATES] OWN;
    for (uint32_t i = 0; i + first < COORDINATES; i++)
        at[i] = as_float(coordinates[i + first]);
    if (first)
        layer = layer_of(f, coordinates[0], geometry & TW_CUBE ? 6 : 1);
    if (geometry & TW_CUBE)
        layer = 6 * layer + face_of(at), axes = 2;
    if (geometry & TW_GATHERS) {
        gather(f, at, geometry >> TW_GATHER_SHIFT, out);
        return;
    }
    struct point points[TW_TEXTURE_AXES] OWN = {{{0, 0}, 0}, {{0, 0}, 0}, {{layer, layer}, 0}};
    for (uint32_t axis = 0; axis < axes; axis++)
        points[axis] = geometry & TW_INTEGERS ? point_at(f, coordinates[axis + first], axis)
                                              : point_of(f, at[axis], axis, linear);
    if (linear)
        mix(f, points, axes, out);
    else
        element(f, points[0].at[0], points[1].at[0], points[2].at[0], out);
}

// The lanes of a mask each read a texture: its handle, and four arrays of 32 coordinates. Leaves four values of each.
bool tw_texture_read(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                     const uint64_t *handles, const uint32_t *coordinates, uint64_t *values, uint32_t geometry,
                     uint64_t base)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        struct fetch f = started(context, warp, site, lane, handles[lane], base);
        uint32_t at[COORDINATES] OWN, out[CHANNELS] OWN;
        for (uint32_t i = 0; i < COORDINATES; i++)
            at[i] = coordinates[i * TW_LANES + lane];
        if (!f.failed)
            read(&f, at, geometry, out);
        if (f.failed)
            return true;
        for (uint32_t i = 0; i < CHANNELS; i++)
            values[i * TW_LANES + lane] = out[i];
    }
    return false;
}

// Where a lane's access of a surface is; `NONE` where it is left out. The first coordinate counts bytes.
static int64_t place_of(struct fetch *f, const uint32_t *coordinates, uint32_t bytes, uint32_t does)
{
    int64_t at[TW_TEXTURE_AXES] OWN = {0};
    const int64_t ends[TW_TEXTURE_AXES] OWN = {(int64_t)f->of.extents[0] * element_bytes(f) - bytes,
                                           (int64_t)f->of.extents[1] - 1, (int64_t)f->of.extents[2] - 1};
    bool outside = false;
    for (uint32_t axis = 0; axis < TW_TEXTURE_AXES; axis++) {
        at[axis] = (int32_t)coordinates[axis];
        outside |= at[axis] < 0 || at[axis] > ends[axis];
        if (does & TW_SURFACE_CLAMP)
            at[axis] = at[axis] < 0 ? 0 : at[axis] > ends[axis] ? ends[axis] : at[axis];
    }
    const uint64_t place = f->of.address + (uint64_t)at[2] * f->of.plane_bytes + (uint64_t)at[1] * f->of.row_bytes +
                           (uint64_t)at[0];
    if (outside && does & TW_SURFACE_ZERO)
        return NONE;
    const bool bad = (outside && !(does & TW_SURFACE_CLAMP)) || is_outside(f, place - f->base, bytes);
    if (bad || place % (bytes & -bytes))
        fault(f, place, bad ? 1 : bytes);
    return (int64_t)(place - f->base);
}

static void move_element(const struct fetch *f, int64_t place, uint32_t does, uint64_t *values)
{
    const uint32_t bytes = does & 15, count = does >> TW_SURFACE_COUNT_SHIFT & 7;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *value = values + i * TW_LANES + f->lane;
        if (!(does & TW_SURFACE_STORES))
            *value = 0;
        if (place == NONE)
            continue;
        char *memory = f->context->global_base + place + i * bytes;
        if (does & TW_SURFACE_STORES)
            __builtin_memcpy(memory, value, bytes);
        else
            __builtin_memcpy(value, memory, bytes);
    }
}

// The lanes of a mask each read or write an element of a surface.
bool tw_surface_access(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                       const uint64_t *handles, const uint32_t *coordinates, uint64_t *values, uint32_t geometry,
                       uint32_t does, uint64_t base)
{
    const uint32_t bytes = (does & 15) * (does >> TW_SURFACE_COUNT_SHIFT & 7), layered = (geometry & TW_LAYERED) != 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        struct fetch f = started(context, warp, site, lane, handles[lane], base);
        if (f.failed)
            return true;
        uint32_t at[COORDINATES] OWN = {0};
        for (uint32_t axis = 0; axis < (geometry & 3); axis++)
            at[axis] = coordinates[(axis + layered) * TW_LANES + lane];
        if (layered)
            at[2] = coordinates[lane];
        const int64_t place = place_of(&f, at, bytes, does);
        if (f.failed)
            return true;
        move_element(&f, place, does, values);
    }
    return false;
}
