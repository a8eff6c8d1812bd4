/* Queues without a bound. */
#include <strings.h>

#include "engine/plan/lint.h"
#include "engine/text/value.h"
#include "millrace/status.h"

/* What people write elsewhere to have a queue without end. */
static bool is_unbounded(const mr_yaml *size) {
    static const char *const words[] = {"unbounded", "unlimited", "infinite", "infinity", "inf",
                                        ".inf",      "endless",   "none",     "false",    "off"};
    int64_t number;
    if (!size || size->kind != MR_YAML_SCALAR || size->broken)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(size->text, words[i]) == 0)
            return true;
    return mr_value_int(size->text, &number) && number <= 0;
}

void mr_lint_queue(mr_yaml *queue, const char *stage, mr_diagnostics *diagnostics) {
    mr_yaml *size = queue && queue->kind == MR_YAML_MAP ? mr_yaml_get(queue, "size") : queue;
    char found[64];
    if (!is_unbounded(size))
        return;
    mr_diagnose(
        diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, size->place,
        "write how many frames of one source may wait, such as 8; without a bound they fill the memory as soon "
        "as a stage is slower than its source",
        "stages.%s.queue: a queue must have a bound, found %s", stage, mr_yaml_found(size, found, sizeof found));
    size->broken = true;
}
