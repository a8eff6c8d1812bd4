#include "engine/flow/run/run_id.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "millrace/status.h"

uint64_t mr_run_id_number(const mr_run_id *id) {
    return id->number;
}

bool mr_run_id_is(const char *text) {
    return text && strlen(text) == MR_RUN_ID_TEXT - 1 && strspn(text, "0123456789abcdef") == MR_RUN_ID_TEXT - 1;
}

static int read_given(const char *text, uint64_t *number) {
    const size_t digits = strspn(text, "0123456789abcdefABCDEF");
    *number = strtoull(text, NULL, 16);
    if (digits < MR_RUN_ID_TEXT && !text[digits] && *number)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "MILLRACE_RUN is \"%.64s\", which names no run: set it to a number of 1 to 16 "
                   "hexadecimal digits other than 0", text);
}

int mr_run_id_make(mr_run_id *id) {
    const char *given = getenv("MILLRACE_RUN");
    id->given = given && *given;
    int status = id->given ? read_given(given, &id->number) : MR_OK;
    while (!id->given && !id->number)
        if (getrandom(&id->number, sizeof id->number, 0) != (ssize_t)sizeof id->number)
            return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(id->text, sizeof id->text, "%016" PRIx64, id->number);
    return status;
}
