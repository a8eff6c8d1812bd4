#include "engine/flow/run/run_id.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "millrace/status.h"

bool mr_run_id_is(const char *text) {
    return text && strlen(text) == MR_RUN_ID_TEXT - 1 && strspn(text, "0123456789abcdef") == MR_RUN_ID_TEXT - 1;
}

int mr_run_id_make(mr_run_id *id) {
    const char *given = getenv("MILLRACE_RUN");
    uint64_t number = given ? strtoull(given, NULL, 16) : 0;
    id->given = number;
    if (!number && getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(id->text, sizeof id->text, "%016" PRIx64, number);
    return MR_OK;
}
