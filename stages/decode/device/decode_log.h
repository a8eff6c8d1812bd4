/* Learns from the decoders' log which packets are damaged.
 *
 * libavcodec's decoders continue after most damage and conceal it or leave it. Picture flags show that only in part.
 * With frame threads, FFmpeg 5 can copy the flags before decoding ends. Slice threads and the HEVC decoder set none.
 * But every decoder logs it on the decoding thread, before this picture or any later one comes out. So this module
 * reads the log. Lines that also appear for undamaged streams do not count: references missing at a stream's start,
 * camera messages.
 *
 * A packet's number is the reordered_opaque it is sent with. Any thread may call. */
#pragma once

#include <libavcodec/avcodec.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* More than a decoder can have in flight: the oldest number then belongs to a picture that never came. */
enum { MR_DECODE_LOG = 256 };

typedef struct mr_decode_log_numbers {
    int64_t number[MR_DECODE_LOG]; /* the last ones */
    unsigned count;                /* how many were ever added */
} mr_decode_log_numbers;

/* Shared by one source's decoders. */
typedef struct mr_decode_log {
    pthread_mutex_t lock;           /* guards all below */
    mr_decode_log_numbers pictures; /* damaged pictures; -1: already asked */
    mr_decode_log_numbers news;     /* the same; -1: was taken */
    mr_decode_log_numbers spilt;    /* damaged, and with traces left in the decoder */
    mr_decode_log_numbers refused;  /* packets with a logged error; -1: taken */
    int64_t first;                  /* first damaged one; INT64_MAX: none */
} mr_decode_log;

void mr_decode_log_init(mr_decode_log *log);
void mr_decode_log_fini(mr_decode_log *log);
/* Call when the decoder is empty: no packet sent so far is damaged any more. */
void mr_decode_log_begin(mr_decode_log *log);
/* Call when another decoder decodes packets from that number again. */
void mr_decode_log_forget(mr_decode_log *log, int64_t number);

/* Call for each logged line: `number` is the packet being decoded, `level` is libavutil's. */
void mr_decode_log_line(mr_decode_log *log, int64_t number, int level, const char *format);

/* Whether this packet's picture is damaged. Call once, when the picture has come out. */
bool mr_decode_log_blames(mr_decode_log *log, int64_t number);
/* Marks a packet as damaged for another reason than the log. */
void mr_decode_log_spoil(mr_decode_log *log, int64_t number);
/* The lowest damaged packet number since mr_decode_log_begin; INT64_MAX: none. Still pictures have negative numbers
 * (still_decoder.h) and do not count. */
int64_t mr_decode_log_first(mr_decode_log *log);
/* Takes the lowest such number that was not taken yet; 0: none. */
int64_t mr_decode_log_take(mr_decode_log *log);
/* Whether an H.264 decoder gave up a macroblock in this packet in the middle of its coefficients. The decoder keeps the
 * coefficients and adds them to the next picture it decodes. */
bool mr_decode_log_spilt(mr_decode_log *log, int64_t number);
/* Takes the lowest packet number, from `least`, that has a logged error; 0: none. */
int64_t mr_decode_log_take_refused(mr_decode_log *log, int64_t least);
