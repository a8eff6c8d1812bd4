/* Messages about still pictures: files that hold more than the picture, and files that are no supported picture. One
 * thread. */
#pragma once

#include "stages/decode/report.h"

/* Zeros mean that a source begins. */
typedef struct mr_still_report {
    uint64_t trailed; /* pictures after whose end more follows */
} mr_still_report;

/* Looks for data after the end of a picture: bytes, or further pictures. */
void mr_still_report_rest(mr_still_report *report, const mr_stage *self, const mr_frame *packet);
/* As mr_decode_report_damaged. */
const char *mr_still_report_damaged(mr_decode_report *report, const mr_frame *packet);
/* Call at the source's end: logs the count. */
void mr_still_report_end(const mr_still_report *report, const mr_stage *self);
