/* Answers of OpenTelemetry collectors; and any text as a label in the metrics, whose names come from pipelines and
 * cameras: the line must stay one line, with the label closed once, in UTF-8. fuzz_address has addresses and hosts,
 * fuzz_lists the bodies of POSTs.
 *
 *     tests/fuzz/run 60 fuzz_http */
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/http/metrics_out.h"

static const char HEAD[] = "# HELP millrace_x h\n# TYPE millrace_x gauge\nmillrace_x{a=\"";

/* The bytes of the label's value up to the quote that ends it. */
static size_t value_bytes(const char *at, size_t left) {
    size_t i = 0;
    while (i < left && at[i] != '"') {
        fault_if(at[i] == '\n');
        i += at[i] == '\\' ? 2 : 1;
    }
    return i;
}

static void label(const char *value) {
    mr_metrics_out text = {0};
    size_t bytes;
    mr_metrics_family(&text, "x", "gauge", "h");
    const size_t before = mr_metrics_label(&text, "a", value);
    mr_metrics_count(&text, 1);
    mr_metrics_unlabel(&text, before);
    char *got = mr_metrics_finish(&text, &bytes);
    if (!got)
        return;
    if (*value) {
        const size_t head = sizeof HEAD - 1;
        fault_if(bytes < head || memcmp(got, HEAD, head) != 0);
        const size_t inside = value_bytes(got + head, bytes - head);
        fault_if(bytes != head + inside + 5 || memcmp(got + head + inside, "\"} 1\n", 5) != 0);
        for (size_t at = head, one; at < head + inside; at += one)
            fault_if(!(one = mr_utf8_bytes(got + at, head + inside - at)));
    }
    free(got);
}

static void answer(const uint8_t *data, size_t bytes) {
    char why[MR_OTLP_WHY];
    uint64_t rejected;
    for (int cut = 0; cut < 2; cut++)
        if (mr_otlp_read_rejected(data, bytes, cut, &rejected, why))
            fault_if(memchr(why, '\0', sizeof why) == NULL);
}

FUZZ(data, bytes) {
    char *text = (char *)fuzz_copy(data, bytes, 1);
    answer(data, bytes);
    label(text);
    free(text);
}
