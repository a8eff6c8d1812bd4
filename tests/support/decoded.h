/* Clips run through media and decode, for suites that look at the pictures. */
#pragma once

#include "millrace/millrace.h"
#include "tests/support/clips.h"

/* For clip_make: 25 pictures a second; an encoder followed by a pixel format; both, for "h264-420.mp4". */
#define CLIP_PATTERN "-f lavfi -i testsrc2=size=176x144:rate=25 "
#define CLIP_H264 "-c:v libx264 -preset veryfast -bf 2 -g 10 -pix_fmt "
#define CLIP_PLAIN CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv420p"
/* For clip_make_twice, "vp9-shown.webm": 12 of 32 pictures are decoded with one packet and shown by a later one. */
#define CLIP_SHOWN_LATER                                                                                              \
    CLIP_PATTERN "-frames:v 32 -c:v libvpx-vp9 -cpu-used 8 -b:v 200k -auto-alt-ref 6 -lag-in-frames 25 "

typedef struct clip_outcome {
    int status;
    size_t count;
    mr_format format[CLIP_FRAMES];
    mr_identity identity[CLIP_FRAMES];
    int64_t pts_ns[CLIP_FRAMES];
    int64_t born_ns[CLIP_FRAMES];
    bool marked[CLIP_FRAMES]; /* marked as damaged */
    char md5[CLIP_FRAMES][CLIP_MD5];
    uint64_t in, delivered, dropped, absorbed, corrupt;
    char message[512];
} clip_outcome;

/* Runs one clip to the end and checks that the ledger balances. `source` and `decode` are further options, each
 * preceded by a comma. A nonzero seed runs on the caller's thread with a simulated clock. */
void clip_run(clip_outcome *result, const char *path, const char *source, const char *decode);
void clip_run_seeded(clip_outcome *result, const char *path, const char *source, const char *decode, uint64_t seed);
/* Fails unless the reference's pictures FIRST, FIRST + EVERY, ... came at the right times, and none was dropped. */
void clip_expect(const clip_outcome *result, const clip_frames *expected, size_t first, size_t every);
/* Sets `right` for pictures that came unmarked; times are STEP_NS apart. With `expected`, each must match the
 * reference. */
void clip_find_right(const clip_outcome *result, const clip_frames *expected, int64_t step_ns, bool *right,
                     size_t count);
/* The same on two workers, with the sink type "callback" from this list. */
void clip_run_types(clip_outcome *result, const char *path, const char *source, const char *decode,
                    const mr_stage_type *const *types);
