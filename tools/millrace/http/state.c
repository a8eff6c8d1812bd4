#include "tools/millrace/http/state.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"

bool mr_run_http_is(const mr_run_http *web, mr_health_kind kind, char why[MR_HEALTH_WHY]) {
    const mr_health health = {.now = &web->now, .movement = &web->movement, .opened_ns = web->opened_ns,
                              .shown_ns = web->shown_ns, .stall_ns = web->http->stall_ns};
    return mr_health_is(&health, kind, mr_now_ns(), why);
}

mr_http_reply mr_run_http_send_text(mr_http_request *request, const char *type, char *text, size_t bytes,
                                    unsigned code) {
    return mr_http_send(request, &(mr_http_content){.type = type, .data = text, .bytes = bytes, .release = free,
                                                    .owner = text, .code = code});
}

mr_http_reply mr_run_http_send_json(mr_http_request *request, yajl_gen json) {
    size_t bytes;
    char *text = mr_json_finish_text(json, &bytes);
    return text ? mr_run_http_send_text(request, "application/json", text, bytes, 200) : MR_HTTP_END;
}
