/* Hardware that a plan is made for, even if it is not present: `--assume cuda:8xH100`. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/device/sim/card.h"

typedef struct mr_assumption {
    const char *kind;         /* "cuda" or "sim" */
    int count;
    int64_t bytes;            /* memory per device; 0: not given */
    char like[MR_CARD_NAME];  /* a card; "": not given */
} mr_assumption;

/* "cuda:8x80GiB": eight devices with that much memory each; "sim:2": two; "cuda:2xH100": two such cards. False if the
 * text is malformed; whether there is such a card is not checked. */
bool mr_plan_parse_assumption(const char *text, mr_assumption *to);
