/* Parameters of a simulated device, as they stand behind its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"
#include "engine/device/sim.h"
#include "millrace/status.h"

typedef enum value_kind { COUNT, DURATION, BYTES, RATE } value_kind;

typedef struct parameter {
    const char *name;
    value_kind kind;
    size_t offset, second; /* of the fields that it sets; `second` 0: only one */
} parameter;

#define FIELD(name) offsetof(mr_sim_params, name)
static const parameter known[] = {
    {"min_delay", DURATION, FIELD(min_delay_ns), 0},
    {"max_delay", DURATION, FIELD(max_delay_ns), 0},
    {"copy", RATE, FIELD(upload_rate), FIELD(download_rate)},
    {"upload", RATE, FIELD(upload_rate), 0},
    {"download", RATE, FIELD(download_rate), 0},
    {"compute", RATE, FIELD(compute_rate), 0},
    {"call", DURATION, FIELD(call_ns), 0},
    {"memory", BYTES, FIELD(memory_bytes), 0},
    {"fail_after", COUNT, FIELD(fail_after), 0},
    {"fail_every", COUNT, FIELD(fail_every), 0},
    {"fail_allocation", COUNT, FIELD(fail_allocation), 0},
    {"fail_call", COUNT, FIELD(fail_call), 0},
    {"lose_after", COUNT, FIELD(lose_after), 0},
    {"lose_call", COUNT, FIELD(lose_call), 0},
    {"slow_after", COUNT, FIELD(slow_after), 0},
    {"slow", COUNT, FIELD(slow), 0},
    {"corrupt", COUNT, FIELD(corrupt), 0},
};
enum { KNOWN = sizeof known / sizeof known[0], VALUE_ROOM = 64 };

static bool read_count(const char *text, int64_t *value) {
    char *end;
    *value = strtoll(text, &end, 10);
    return *text && strspn(text, "0123456789") == strlen(text) && !*end;
}

static bool read_value(value_kind kind, char *text, int64_t *value) {
    size_t length = strlen(text);
    switch (kind) {
    case COUNT:
        return read_count(text, value);
    case DURATION:
        return read_count(text, value) || mr_units_read(text, mr_units_duration, value);
    case RATE:
        if (length < 3 || strcmp(text + length - 2, "/s") != 0)
            return false;
        text[length - 2] = '\0';
        break;
    case BYTES:
        break;
    }
    return mr_units_read(text, mr_units_bytes, value);
}

static const parameter *find(const char *name, size_t length) {
    for (size_t i = 0; i < KNOWN; i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, name, length) == 0)
            return &known[i];
    return NULL;
}

static int unknown(const char *name, size_t length) {
    char names[256] = "";
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", known[i].name);
    return mr_fail(MR_ERROR_CONFIG, "a simulated device has no parameter \"%.*s\"; it has %s", (int)length, name,
                   names);
}

/* "key=value", so many characters of it. */
static int set_parameter(mr_sim_params *params, const char *text, size_t length) {
    static const char *const examples[] = {[COUNT] = "a whole number",
                                           [DURATION] = "a time such as 20us",
                                           [BYTES] = "bytes such as 64MiB",
                                           [RATE] = "bytes a second such as 12GB/s"};
    size_t name = strcspn(text, "=");
    char value[VALUE_ROOM];
    int64_t number;
    if (name >= length || length - name - 1 >= sizeof value)
        return mr_fail(MR_ERROR_CONFIG, "expected key=value behind \"?\" of a simulated device, found \"%.*s\"",
                       (int)length, text);
    const parameter *which = find(text, name);
    if (!which)
        return unknown(text, name);
    snprintf(value, sizeof value, "%.*s", (int)(length - name - 1), text + name + 1);
    if (!read_value(which->kind, value, &number) || number < 0)
        return mr_fail(MR_ERROR_CONFIG, "%s of a simulated device is %s, not \"%.*s\"", which->name,
                       examples[which->kind], (int)(length - name - 1), text + name + 1);
    *(int64_t *)(void *)((char *)params + which->offset) = number;
    if (which->second)
        *(int64_t *)(void *)((char *)params + which->second) = number;
    return MR_OK;
}

int mr_sim_parse(const char *text, mr_sim_params *params) {
    while (*text == '?' || *text == '&') {
        size_t length = strcspn(text + 1, "&");
        int status = set_parameter(params, text + 1, length);
        if (status)
            return status;
        text += 1 + length;
    }
    return *text ? mr_fail(MR_ERROR_CONFIG, "unexpected \"%s\" in the name of a simulated device", text) : MR_OK;
}
