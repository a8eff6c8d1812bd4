/* Any bytes as reports to a hub: nothing may crash or leak, the registry must stay in order and within its limits, and
 * every refusal must have a reason. An input has pieces; each is a message.
 *
 *     tests/fuzz/run 60 fuzz_hub */
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/hub/registry.h"

FUZZ(data, bytes) {
    mr_hub_registry registry = {.most = 4, .lost_ns = 3, .keep_ns = 9};
    for (int64_t now_ns = 0; bytes; now_ns += 2) {
        size_t length;
        uint8_t *message = fuzz_piece(&data, &bytes, &length, 0);
        const uint64_t version = registry.version;
        const mr_hub_fate fate = mr_hub_registry_take(&registry, message, length, now_ns);
        fault_if(fate == MR_HUB_MALFORMED && !*mr_message());
        fault_if(fate == MR_HUB_TAKEN && registry.version == version);
        mr_hub_registry_look(&registry, now_ns);
        fault_if(registry.count > registry.most);
        for (size_t i = 1; i < registry.count; i++)
            fault_if(registry.runs[i - 1]->report->id >= registry.runs[i]->report->id);
        free(message);
    }
    mr_hub_registry_fini(&registry);
}
