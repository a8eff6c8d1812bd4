#include "tools/millrace/hub/hub_report.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/url.h"
#include "millrace/status.h"

enum { VERSION = 1, MOST_UNKNOWN = 256 };

bool mr_hub_page_is(const char *address) {
    return mr_url_has_scheme(address, "http") || mr_url_has_scheme(address, "https");
}

typedef struct text {
    const char *name, *value;
    size_t room;
} text;

static int check_texts(const text *texts) {
    for (const text *one = texts; one->name; one++)
        if (strlen(one->value) >= one->room || !mr_printable(one->value))
            return mr_fail(MR_ERROR_DATA, "%s is no text of at most %zu printable bytes", one->name, one->room - 1);
    return MR_OK;
}

static int check_numbers(const uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (numbers[i] > INT64_MAX)
            return mr_fail(MR_ERROR_DATA, "a number is %" PRIu64 ", more than %" PRId64, numbers[i], INT64_MAX);
    return MR_OK;
}

#define NUMBERS(...)                                                                                                  \
    check_numbers((const uint64_t[]){__VA_ARGS__}, sizeof (const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))

static int check_head(const mr_hub_report *report) {
    if (report->version != VERSION)
        return mr_fail(MR_ERROR_DATA, "the message has version %" PRIu32 ", and this hub knows %d", report->version,
                       VERSION);
    if (!report->id || report->state < MILLRACE__HUB__STATE__RUNS || report->state > MILLRACE__HUB__STATE__ENDED)
        return mr_fail(MR_ERROR_DATA, "the message has no id or an unknown state");
    if (*report->page && !mr_hub_page_is(report->page))
        return mr_fail(MR_ERROR_DATA, "the page's address is neither http:// nor https://");
    if (report->n_processes > MR_HUB_LIST || report->n_devices > MR_HUB_LIST)
        return mr_fail(MR_ERROR_DATA, "a list has more than %d entries", MR_HUB_LIST);
    return check_texts((const text[]){{"host", report->host, MR_HUB_NAME},
                                      {"pipeline", report->pipeline, MR_HUB_NAME},
                                      {"digest", report->digest, MR_HUB_WORD},
                                      {"run", report->run, MR_HUB_WORD},
                                      {"node", report->node, MR_HUB_NAME},
                                      {"program", report->program, MR_HUB_WORD},
                                      {"page", report->page, MR_HUB_PAGE},
                                      {"why", report->why, MR_HUB_WHY},
                                      {0}});
}

/* Later versions may have more fields. They are kept with the report, with more memory than in the message. */
static int check_unknown(const mr_hub_report *report) {
    size_t unknown = report->base.n_unknown_fields;
    for (size_t i = 0; i < report->n_processes; i++)
        unknown += report->processes[i]->base.n_unknown_fields;
    for (size_t i = 0; i < report->n_devices; i++)
        unknown += report->devices[i]->base.n_unknown_fields;
    return unknown <= MOST_UNKNOWN ? MR_OK : mr_fail(MR_ERROR_DATA, "the message has %zu unknown fields", unknown);
}

static int check(const mr_hub_report *report) {
    int status = check_head(report);
    if (!status)
        status = check_unknown(report);
    if (!status)
        status = NUMBERS(report->elapsed_ns, report->cpu_ns, report->in, report->delivered, report->dropped,
                         report->absorbed, report->in_flight);
    for (size_t i = 0; !status && i < report->n_processes; i++)
        status = check_texts((const text[]){{"a process's name", report->processes[i]->name, MR_HUB_NAME},
                                            {"a process's state", report->processes[i]->state, MR_HUB_WORD},
                                            {0}});
    for (size_t i = 0; !status && i < report->n_devices; i++) {
        const Millrace__Hub__Device *device = report->devices[i];
        status = check_texts((const text[]){{"a device's name", device->name, MR_HUB_NAME},
                                            {"a device's state", device->state, MR_HUB_WORD},
                                            {0}});
        if (!status)
            status = NUMBERS(device->bytes, device->busy_ns, device->frames);
    }
    return status;
}

int mr_hub_report_read(mr_hub_report **result, const void *data, size_t bytes) {
    if (bytes > MR_HUB_MESSAGE)
        return mr_fail(MR_ERROR_DATA, "the message has %zu bytes, more than %d", bytes, MR_HUB_MESSAGE);
    mr_hub_report *report = millrace__hub__report__unpack(NULL, bytes, data);
    int status = report ? check(report) : mr_fail(MR_ERROR_DATA, "the message is not as proto/hub.proto describes it");
    if (status)
        mr_hub_report_free(&report);
    else
        *result = report;
    return status;
}

void mr_hub_report_free(mr_hub_report **report) {
    if (*report)
        millrace__hub__report__free_unpacked(*report, NULL);
    *report = NULL;
}

size_t mr_hub_report_write(const mr_hub_report *report, unsigned char data[MR_HUB_MESSAGE]) {
    const size_t bytes = millrace__hub__report__get_packed_size(report);
    return bytes <= MR_HUB_MESSAGE ? millrace__hub__report__pack(report, data) : 0;
}
