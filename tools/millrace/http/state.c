#include "tools/millrace/http/state.h"

#include "engine/base/clock.h"

bool mr_run_http_is(const mr_run_http *web, mr_health_kind kind, char why[MR_HEALTH_WHY]) {
    const mr_health health = {.now = &web->now, .movement = &web->movement, .opened_ns = web->opened_ns,
                              .shown_ns = web->shown_ns, .stall_ns = web->http->stall_ns};
    return mr_health_is(&health, kind, mr_now_ns(), why);
}
