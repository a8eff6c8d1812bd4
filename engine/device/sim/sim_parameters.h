/* A simulated device's parameters, as they follow its name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/device/sim/card.h"

/* Each field has a name after the `?` in a device name ("sim:0?copy=12GB/s&call=50us&memory=64MiB"). Times are written
 * "20us" (bare numbers are nanoseconds), bytes "64MiB", rates "12GB/s". `copy` sets both directions' rates. `like`
 * names a card (card.h), which sets all rates, call, copies, kernels and memory; a parameter beside it has precedence,
 * in any order. 0: not set. */
typedef struct mr_sim_params {
    int index;
    uint64_t seed;
    bool manual;
    int64_t min_delay_ns, max_delay_ns;  /* min_delay, max_delay; 1us and 200us if no time and no rate is set */
    int64_t upload_rate, download_rate;  /* upload, download: bytes a second */
    int64_t compute_rate;                /* compute: bytes a second */
    int64_t call_ns;                     /* call: for each piece that is not a copy */
    int64_t copies, kernels;             /* how many engines copy, and how many kernels run side by side */
    int64_t memory_bytes;                /* memory: device memory beyond this is refused (MR_ERROR_MEMORY) */
    int64_t fail_after;                  /* every piece from the Nth on fails (MR_ERROR_DEVICE) */
    int64_t fail_every;                  /* every Nth piece fails */
    int64_t fail_allocation;             /* the Nth allocation fails (MR_ERROR_MEMORY) */
    int64_t fail_call;                   /* the Nth call fails: allocate, create, submit, copy, record or wait */
    int64_t lose_after, lose_call;       /* everything fails from the Nth piece of work, or call, on: a lost device */
    int64_t slow_after, slow;            /* work from the Nth piece on takes `slow` times as long */
    int64_t corrupt;                     /* flips one bit, once, in device memory that work other than a copy wrote for
                                            a source's Nth frame: 0x40 in a word's third byte, which is 64 in an 8-bit
                                            value and 2^22 units in a float's last place */
    mr_card card;                        /* like: with the other parameters applied; empty name: none */
} mr_sim_params;

/* Reads the parameters in `text`, "?key=value&key=value" or "". MR_ERROR_CONFIG. */
int mr_sim_parse(const char *text, mr_sim_params *params);
