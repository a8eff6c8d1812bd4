#include "engine/device/sim/sim_parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"
#include "millrace/status.h"

typedef enum value_kind { COUNT, DURATION, BYTES, RATE, CARD } value_kind;

typedef struct parameter {
    const char *name;
    value_kind kind;
    size_t offset, second; /* which fields it sets; `second` 0: only one */
} parameter;

#define FIELD(name) offsetof(mr_sim_params, name)
static const parameter known[] = {
    {"like", CARD, FIELD(card), 0},
    {"min_delay", DURATION, FIELD(min_delay_ns), 0},
    {"max_delay", DURATION, FIELD(max_delay_ns), 0},
    {"copy", RATE, FIELD(upload_rate), FIELD(download_rate)},
    {"upload", RATE, FIELD(upload_rate), 0},
    {"download", RATE, FIELD(download_rate), 0},
    {"compute", RATE, FIELD(compute_rate), 0},
    {"call", DURATION, FIELD(call_ns), 0},
    {"copies", COUNT, FIELD(copies), 0},
    {"kernels", COUNT, FIELD(kernels), 0},
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
enum { KNOWN = sizeof known / sizeof known[0], VALUE_ROOM = MR_CARD_NAME };

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
    case CARD:
        return false;
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

/* All that a card has figures for. */
static int be_like(mr_sim_params *params, const char *name) {
    int status = mr_card_open(name, &params->card);
    if (status) {
        params->card = (mr_card){0};
        return status;
    }
    params->upload_rate = (int64_t)params->card.upload_rate;
    params->download_rate = (int64_t)params->card.download_rate;
    params->compute_rate = (int64_t)params->card.memory_rate;
    params->call_ns = (int64_t)params->card.launch_ns;
    params->copies = params->card.copy_engines;
    params->kernels = params->card.kernels;
    params->memory_bytes = params->card.memory_bytes;
    return MR_OK;
}

/* One "key=value" of `length` characters. The `first` pass applies the card, the second all other parameters, so that
 * those have precedence. */
static int set_parameter(mr_sim_params *params, const char *text, size_t length, bool first) {
    static const char *const examples[] = {[COUNT] = "a whole number",
                                           [DURATION] = "a time such as 20us",
                                           [BYTES] = "bytes such as 64MiB",
                                           [RATE] = "bytes a second such as 12GB/s"};
    size_t name = strcspn(text, "=");
    char value[VALUE_ROOM];
    int64_t number;
    if (name >= length || length - name - 1 >= sizeof value)
        return mr_fail(MR_ERROR_CONFIG, "expected key=value after the \"?\" of a simulated device, found \"%.*s\"",
                       (int)length, text);
    const parameter *which = find(text, name);
    if (!which)
        return unknown(text, name);
    if ((which->kind == CARD) != first)
        return MR_OK;
    snprintf(value, sizeof value, "%.*s", (int)(length - name - 1), text + name + 1);
    if (which->kind == CARD)
        return be_like(params, value);
    if (!read_value(which->kind, value, &number) || number < 0)
        return mr_fail(MR_ERROR_CONFIG, "%s of a simulated device is %s, not \"%.*s\"", which->name,
                       examples[which->kind], (int)(length - name - 1), text + name + 1);
    *(int64_t *)(void *)((char *)params + which->offset) = number;
    if (which->second)
        *(int64_t *)(void *)((char *)params + which->second) = number;
    return MR_OK;
}

static int set_all(const char *text, mr_sim_params *params, bool first) {
    while (*text == '?' || *text == '&') {
        size_t length = strcspn(text + 1, "&");
        int status = set_parameter(params, text + 1, length, first);
        if (status)
            return status;
        text += 1 + length;
    }
    return *text ? mr_fail(MR_ERROR_CONFIG, "unexpected \"%s\" in the name of a simulated device", text) : MR_OK;
}

/* The card with the parameters that were written beside it. */
static void settle_card(mr_sim_params *params) {
    params->card.upload_rate = (double)params->upload_rate;
    params->card.download_rate = (double)params->download_rate;
    params->card.memory_rate = (double)params->compute_rate;
    params->card.launch_ns = (double)params->call_ns;
    params->card.copy_engines = (int)params->copies;
    params->card.kernels = (int)params->kernels;
    params->card.memory_bytes = params->memory_bytes;
}

int mr_sim_parse(const char *text, mr_sim_params *params) {
    int status = set_all(text, params, true);
    status = status ? status : set_all(text, params, false);
    if (!status && params->card.name[0])
        settle_card(params);
    return status;
}
