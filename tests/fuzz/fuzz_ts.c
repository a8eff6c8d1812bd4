/* Transport streams: any bytes are scanned, in two pieces, and pictures are looked up anywhere in them. */
#include <stdint.h>
#include <stdlib.h>

#include "stages/media/ts/ts_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_ts_scan *scan = mr_ts_scan_create();
    mr_ts_cursor cursor = {0};
    if (!scan || size < 4) {
        mr_ts_scan_destroy(&scan);
        return 0;
    }
    const size_t cut = (data[0] | (size_t)data[1] << 8) % size;
    mr_ts_scan_feed(scan, 0, data, cut);
    mr_ts_scan_feed(scan, (int64_t)cut + (data[2] == 1), data + cut, size - cut);
    for (size_t at = 0; at < size; at += 188)
        (void)mr_ts_scan_find(scan, &cursor, data[3], at % 5 ? (int64_t)at : -1, data[at]);
    mr_ts_scan_destroy(&scan);
    return 0;
}
