/* The id of a run: 16 hexadecimal digits. All processes of a run have the same one, also those that continue it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MR_RUN_ID_TEXT = 17 };

typedef struct mr_run_id {
    uint64_t number; /* not 0 */
    char text[MR_RUN_ID_TEXT];
    bool given; /* by $MILLRACE_RUN, so that other processes know it too; else it is random */
} mr_run_id;

/* MR_ERROR_USAGE: $MILLRACE_RUN is not 1 to 16 hexadecimal digits, or 0. MR_ERROR_INTERNAL: there are no random
 * numbers. */
int mr_run_id_make(mr_run_id *id);
uint64_t mr_run_id_number(const mr_run_id *id);
/* Whether a text is such an id. */
bool mr_run_id_is(const char *text);
