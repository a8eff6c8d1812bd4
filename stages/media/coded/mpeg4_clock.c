#include "stages/media/coded/mpeg4_clock.h"

#include "stages/media/coded/nal.h"

/* 6.2.3: reads video_object_layer up to the clock. Only rectangular shapes are supported. */
static void read_layer(mr_mpeg4_clock *clock, mr_nal one) {
    enum { EXTENDED_ASPECT = 15 };
    mr_bits bits = {.data = one.data, .bytes = one.bytes, .at = 8};
    mr_bits_read(&bits, 9);
    if (mr_bits_read(&bits, 1)) /* is_object_layer_identifier */
        mr_bits_read(&bits, 7);
    if (mr_bits_read(&bits, 4) == EXTENDED_ASPECT)
        mr_bits_read(&bits, 16);
    if (mr_bits_read(&bits, 1)) { /* vol_control_parameters */
        mr_bits_read(&bits, 3);
        if (mr_bits_read(&bits, 1))
            for (int i = 0; i < 79; i += 16) /* skips buffer fields: 79 bits */
                mr_bits_read(&bits, i + 16 > 79 ? 15 : 16);
    }
    const unsigned shape = mr_bits_read(&bits, 2);
    mr_bits_read(&bits, 1);
    const unsigned rate = mr_bits_read(&bits, 16);
    if (!bits.short_of && shape == 0 && rate > 0)
        clock->rate = rate;
}

static unsigned width_of(unsigned most) {
    unsigned width = 1;
    while (most >> width)
        width++;
    return width;
}

/* 6.2.5 and 6.3.5: whole seconds count from the last reference picture; a non-reference picture counts from the one
 * before that. */
static bool read_picture(mr_mpeg4_clock *clock, mr_nal one, int64_t *time) {
    enum { BETWEEN = 2, MOST_SECONDS = 3600 };
    mr_bits bits = {.data = one.data, .bytes = one.bytes, .at = 8};
    const bool between = mr_bits_read(&bits, 2) == BETWEEN;
    int64_t seconds = 0;
    while (seconds < MOST_SECONDS && mr_bits_read(&bits, 1))
        seconds++;
    mr_bits_read(&bits, 1);
    const unsigned ticks = mr_bits_read(&bits, width_of(clock->rate - 1));
    if (bits.short_of)
        return false;
    if (!between) {
        clock->before = clock->second;
        clock->second += seconds;
    }
    *time = (between ? clock->before + seconds : clock->second) * clock->rate + ticks;
    return true;
}

/* 6.2.4: a group header holds the time of day. */
static void read_group(mr_mpeg4_clock *clock, mr_nal one) {
    mr_bits bits = {.data = one.data, .bytes = one.bytes, .at = 8};
    const int64_t hours = mr_bits_read(&bits, 5), minutes = mr_bits_read(&bits, 6);
    mr_bits_read(&bits, 1);
    const int64_t seconds = mr_bits_read(&bits, 6);
    if (!bits.short_of)
        clock->second = 3600 * hours + 60 * minutes + seconds;
}

bool mr_mpeg4_clock_read(mr_mpeg4_clock *clock, const uint8_t *data, size_t bytes, int64_t *time) {
    enum { FIRST_LAYER = 0x20, LAST_LAYER = 0x2f, GROUP = 0xb3, PICTURE = 0xb6 };
    mr_nals from = {data, data + bytes, 0};
    for (mr_nal one; mr_nal_next(&from, &one);) {
        if (one.bytes && one.data[0] >= FIRST_LAYER && one.data[0] <= LAST_LAYER)
            read_layer(clock, one);
        if (one.bytes && one.data[0] == GROUP)
            read_group(clock, one);
        if (one.bytes && one.data[0] == PICTURE && clock->rate)
            return read_picture(clock, one, time);
    }
    return false;
}
