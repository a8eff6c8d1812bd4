/* Transport streams: any bytes are scanned, in two pieces, and pictures are looked up anywhere in them. And tables of
 * any content, whose sum is right. */
#include <libavutil/crc.h>
#include <string.h>

#include "stages/media/ts/ts_scan.h"
#include "stages/media/ts/ts_tables.h"
#include "tests/fuzz/fuzz.h"

static void take_tables(const uint8_t *data, size_t size) {
    enum { HEAD = 5, BODY = MR_TS_BYTES - HEAD, SUM = 4 };
    mr_ts_tables *tables = calloc(1, sizeof *tables);
    for (size_t at = 0, bytes; tables && at < size; at += bytes) {
        uint8_t packet[MR_TS_BYTES] = {0x47, 0x40, data[at] & 3, 0x10};
        bytes = size - at < BODY - SUM ? size - at : BODY - SUM;
        memcpy(packet + HEAD, data + at, bytes);
        packet[HEAD] = data[at] & 2;
        packet[HEAD + 1] = 0;
        packet[HEAD + 2] = (uint8_t)(bytes > 3 ? bytes + SUM - 3 : SUM);
        const size_t summed = packet[HEAD + 2] + 3u - SUM;
        const uint32_t sum = av_crc(av_crc_get_table(AV_CRC_32_IEEE), UINT32_MAX, packet + HEAD, summed);
        memcpy(packet + HEAD + summed, &sum, sizeof sum);
        if (mr_ts_tables_take(tables, packet))
            mr_ts_tables_go_on(tables);
        mr_ts_tables_watch(tables, data[at]);
    }
    free(tables);
}

FUZZ(data, size) {
    mr_ts_scan *scan = mr_ts_scan_create();
    mr_ts_cursor cursor = {0};
    if (!scan || size < 4) {
        mr_ts_scan_destroy(&scan);
        return;
    }
    const size_t cut = (data[0] | (size_t)data[1] << 8) % size;
    mr_ts_scan_feed(scan, 0, data, cut);
    mr_ts_scan_feed(scan, (int64_t)cut + (data[2] == 1), data + cut, size - cut);
    for (size_t at = 0; at < size; at += 188)
        (void)mr_ts_scan_find(scan, &cursor, data[3], at % 5 ? (int64_t)at : -1, data[at]);
    mr_ts_scan_destroy(&scan);
    take_tables(data, size);
}
