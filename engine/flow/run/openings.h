/* Instances that their own threads open, and the first that cannot be opened. Any thread. */
#ifndef MILLRACE_FLOW_RUN_OPENINGS_H
#define MILLRACE_FLOW_RUN_OPENINGS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mr_openings mr_openings;

int mr_openings_create(mr_openings **openings);
void mr_openings_destroy(mr_openings **openings);
/* One more thread is to open its instance, and to call mr_openings_end. */
void mr_openings_expect(mr_openings *openings);
void mr_openings_end(mr_openings *openings);
/* Something could not be opened, as said, or begun; only the first failure counts. */
void mr_openings_fail(mr_openings *openings, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The first failure so far, with the message of mr_fail; `all`: once all threads have opened their instances. */
int mr_openings_status(mr_openings *openings, bool all);

#endif
