/* Any bytes as what a camera sends over HTTP, in reads whose lengths follow from the first byte: pictures lie within
 * what was sent, none is larger than allowed, and bytes without a picture are bounded.
 *
 *     tests/fuzz/run 60 fuzz_mjpeg */
#include <string.h>

#include "millrace/status.h"
#include "stages/live/mjpeg/joined.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 4096 };

static void take_all(mr_joined *joined, size_t sent) {
    mr_joined_picture picture;
    volatile uint8_t sum = 0;
    while (!mr_joined_take(joined, &picture)) {
        fault_if(picture.bytes < 2 || picture.bytes > sent || picture.width < 0 || picture.height < 0);
        for (size_t i = 0; i < picture.bytes; i++)
            sum = (uint8_t)(sum + picture.data[i]);
    }
}

FUZZ(data, bytes) {
    mr_joined *joined;
    mr_joined_picture picture;
    const size_t step = bytes ? 1 + data[0] * 4u : 1;
    fault_if(mr_joined_create(&joined, MOST));
    for (size_t at = 0; at < bytes; at += step) {
        size_t room;
        const size_t count = bytes - at < step ? bytes - at : step;
        uint8_t *to = mr_joined_room(joined, &room);
        fault_if(!to || room < count);
        memcpy(to, data + at, count);
        mr_joined_put(joined, count);
        take_all(joined, at + count);
        if (mr_joined_take(joined, &picture) == MR_ERROR_DATA)
            break;
    }
    (void)mr_joined_type(joined);
    mr_joined_destroy(&joined);
}
