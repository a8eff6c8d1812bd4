/* What decoders say of damage while they decode.
 *
 * libavcodec's decoders go on behind most damage, and patch the picture up or leave it as it is. That is in the
 * picture's flags only in part: with frame threads FFmpeg 5 may copy them before the thread that decodes the picture is
 * done, and decoders with slice threads, and that of HEVC, set none. All of them log it, in the name of the thread that
 * decodes, before the picture of that packet or of any behind it comes out. So the log is listened to. Lines that
 * decoders also write of whole streams (references that are missing where a stream begins, messages of cameras) do not
 * count.
 *
 * Packets are named by the number that is sent with them as reordered_opaque. Any thread may call. */
#ifndef MILLRACE_STAGES_DECODE_DEVICE_DECODE_HEARD_H
#define MILLRACE_STAGES_DECODE_DEVICE_DECODE_HEARD_H

#include <libavcodec/avcodec.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* More than decoders have pictures under way, so that the oldest number is of one that never came. */
enum { MR_HEARD = 256 };

typedef struct mr_heard_numbers {
    int64_t number[MR_HEARD]; /* the last ones */
    unsigned count;           /* of all there were */
} mr_heard_numbers;

/* Of the decoders of one source. */
typedef struct mr_heard {
    pthread_mutex_t lock;      /* guards all below */
    mr_heard_numbers pictures; /* of damaged ones; -1: was asked about */
    mr_heard_numbers news;     /* the same; -1: was taken */
    mr_heard_numbers spilt;    /* of those that left something behind in the decoder */
    mr_heard_numbers refused;  /* of packets of which the decoder has logged an error; -1: was taken */
    int64_t first;             /* of a damaged one; INT64_MAX: none */
} mr_heard;

void mr_heard_init(mr_heard *heard);
void mr_heard_fini(mr_heard *heard);
/* A decoder with nothing in it goes on: no packet that it has got is damaged. */
void mr_heard_begin(mr_heard *heard);
/* Packets from that number on are decoded again, by another decoder. */
void mr_heard_forget(mr_heard *heard, int64_t number);

/* A line of that format was logged while the packet of that number was decoded; `level`: of libavutil. */
void mr_heard_line(mr_heard *heard, int64_t number, int level, const char *format);

/* Whether the picture of the packet of that number is damaged; to be called once, for a picture that has come out. */
bool mr_heard_of(mr_heard *heard, int64_t number);
/* The packet of that number is damaged, as something else than the log shows. */
void mr_heard_spoil(mr_heard *heard, int64_t number);
/* The lowest number of a damaged packet since mr_heard_begin; INT64_MAX: none. */
int64_t mr_heard_first(mr_heard *heard);
/* Takes the lowest number of a damaged packet that was not taken yet; 0: there is none. Those of still pictures that
 * were decoded early, which are below 0 (decode_early.h), do not count. */
int64_t mr_heard_take(mr_heard *heard);
/* Whether the packet of that number was one of H.264 whose decoder gave up a macroblock among its coefficients: it
 * keeps them, and adds them to those of the next picture that it decodes, whichever that is. */
bool mr_heard_spilt(mr_heard *heard, int64_t number);
/* Takes the lowest number from `least` on of a packet of which an error was logged; 0: there is none. */
int64_t mr_heard_take_refused(mr_heard *heard, int64_t least);

#endif
