#include "stages/preview/answers.h"

#include <string.h>

#include "engine/base/json.h"
#include "engine/base/memory.h"

static const char NOT_FOUND[] = "no source of that name has given a picture; / shows all that have\n";

static mr_http_reply say_status(mr_http_request *request, mr_preview_status status) {
    switch (status) {
    case MR_PREVIEW_UNKNOWN:
        return mr_http_say(request, 404, NOT_FOUND);
    case MR_PREVIEW_FULL:
        return mr_http_say(request, 503, "as many watch already as `viewers` allows\n");
    default:
        return mr_http_say(request, 503, "there is no picture\n");
    }
}

static void free_block(void *block) {
    mr_free(block);
}

/* Sends an allocated text and frees it; NULL: no memory. */
static mr_http_reply send_json(mr_http_request *request, char *text) {
    if (!text)
        return MR_HTTP_END;
    return mr_http_send(request, &(mr_http_content){.type = "application/json", .data = text, .bytes = strlen(text),
                                                    .release = free_block, .owner = text});
}

/* ---- pictures --------------------------------------------------------------------------------------------------- */

/* A picture request's state. */
typedef struct watcher {
    mr_viewer viewer; /* must be first: `resume` gets its address */
    mr_preview_store *store;
    mr_http_request *request;
} watcher;

static void resume(mr_viewer *viewer) {
    mr_http_wake(((const watcher *)(const void *)viewer)->request);
}

static void leave(void *state) {
    watcher *at = state;
    mr_preview_store_leave(at->store, &at->viewer);
    mr_free(at);
}

static void drop(void *owner) {
    mr_jpeg *jpeg = owner;
    mr_jpeg_drop(&jpeg);
}

static mr_http_reply next_picture(void *state, mr_http_content *picture) {
    watcher *at = state;
    mr_jpeg *jpeg = NULL;
    switch (mr_preview_store_next(at->store, &at->viewer, &jpeg)) {
    case MR_PREVIEW_WAIT:
        return MR_HTTP_WAIT;
    case MR_PREVIEW_PICTURE:
        *picture = (mr_http_content){.type = "image/jpeg", .data = jpeg->data, .bytes = jpeg->bytes,
                                     .release = drop, .owner = jpeg};
        return MR_HTTP_DONE;
    default:
        return MR_HTTP_END;
    }
}

static mr_http_reply continue_still(mr_http_request *request) {
    mr_http_content picture;
    switch (next_picture(mr_http_state(request), &picture)) {
    case MR_HTTP_WAIT:
        return MR_HTTP_WAIT;
    case MR_HTTP_DONE:
        return mr_http_send(request, &picture);
    default:
        return say_status(request, MR_PREVIEW_END);
    }
}

static mr_http_reply watch(mr_http_request *request, mr_preview_site *site, bool stream) {
    watcher *at = mr_calloc(1, sizeof *at);
    if (!at)
        return MR_HTTP_END;
    *at = (watcher){.viewer = {.stream = stream, .resume = resume}, .store = site->store, .request = request};
    mr_preview_status found = mr_preview_store_watch(site->store, mr_http_rest(request), &at->viewer);
    if (found != MR_PREVIEW_WAIT) {
        mr_free(at);
        return say_status(request, found);
    }
    mr_http_keep(request, at, leave);
    return stream ? mr_http_stream(request, MR_HTTP_MULTIPART, next_picture) : continue_still(request);
}

static mr_http_reply answer_stream(mr_http_request *request, void *context) {
    return watch(request, context, true);
}

static mr_http_reply answer_still(mr_http_request *request, void *context) {
    return mr_http_state(request) ? continue_still(request) : watch(request, context, false);
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static mr_http_reply answer_record(mr_http_request *request, void *context) {
    const mr_preview_site *site = context;
    mr_preview_status found;
    char *record = mr_preview_store_record(site->store, mr_http_rest(request), &found);
    return record ? send_json(request, record) : say_status(request, found);
}

static mr_http_reply answer_list(mr_http_request *request, void *context) {
    const mr_preview_site *site = context;
    yajl_gen json = mr_json_create(false);
    const unsigned char *text = NULL;
    size_t bytes = 0;
    if (!json)
        return MR_HTTP_END;
    MR_JSON_MAP(json, NULL)
        MR_JSON_ARRAY(json, "sources")
            mr_preview_store_list(site->store, json);
    yajl_gen_get_buf(json, &text, &bytes);
    char *copy = text ? mr_strdup((const char *)text) : NULL;
    yajl_gen_free(json);
    return send_json(request, copy);
}

static mr_http_reply answer_page(mr_http_request *request, void *context) {
    const mr_preview_site *site = context;
    return mr_http_send(request, &(mr_http_content){.type = "text/html; charset=utf-8", .data = site->page,
                                                    .bytes = site->page_bytes});
}

int mr_preview_serve(mr_http_server **server, const mr_http_params *params, mr_preview_site *site) {
    const mr_http_route routes[] = {{.path = "/", .answer = answer_page, .context = site},
                                    {.path = "/.json", .answer = answer_list, .context = site},
                                    {.path = "/*.jpg", .answer = answer_still, .context = site},
                                    {.path = "/*.mjpeg", .answer = answer_stream, .context = site},
                                    {.path = "/*.json", .answer = answer_record, .context = site},
                                    {.path = NULL}};
    mr_http_params with = *params;
    with.routes = routes;
    with.not_found = NOT_FOUND;
    return mr_http_server_create(server, &with);
}
