/* Instances opened by their own threads, and the first that cannot open. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct mr_openings mr_openings;

int mr_openings_create(mr_openings **openings);
void mr_openings_destroy(mr_openings **openings);
/* One more thread will open an instance; it must then call mr_openings_end. */
void mr_openings_expect(mr_openings *openings);
void mr_openings_end(mr_openings *openings);
/* Notes that something could not be opened or begun; only the first failure counts. */
void mr_openings_fail(mr_openings *openings, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The first failure so far, with mr_fail's message. `all`: waits until every thread has opened its instance. */
int mr_openings_status(mr_openings *openings, bool all);
