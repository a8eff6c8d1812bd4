#include "tools/millrace/http/events.h"

#include <stdlib.h>

#include "engine/base/json.h"
#include "engine/base/thread.h"
#include "tools/millrace/http/api.h"

struct mr_run_http_stream {
    mr_run_http *web;
    mr_http_request *request;
    uint64_t shown, lines; /* how much of each it has given */
    mr_run_http_stream *next;
};

struct mr_run_http_state {
    int holders;
    size_t bytes;
    char *text;
    uint64_t shown; /* mr_run_http.shown when it was made */
};

static void let_go(void *owner) {
    mr_run_http_state *shared = owner;
    if (shared && --shared->holders == 0) {
        free(shared->text);
        free(shared);
    }
}

/* With the lock. */
static mr_run_http_state *make_state(const mr_run_http *web) {
    mr_run_http_state *made = calloc(1, sizeof *made);
    yajl_gen json = made ? mr_json_create(false) : NULL;
    if (json) {
        MR_JSON_MAP(json, NULL)
            mr_run_http_put_event(json, web);
        made->text = mr_json_finish_text(json, &made->bytes);
    }
    if (!json || !made->text) {
        free(made);
        return NULL;
    }
    made->bytes--; /* the newline */
    made->holders = 1;
    made->shown = web->shown;
    return made;
}

/* With the lock. */
static mr_http_reply give_state(mr_run_http_stream *stream, mr_http_content *part) {
    mr_run_http *web = stream->web;
    if (!web->state || web->state->shown != web->shown) {
        let_go(web->state);
        web->state = make_state(web);
    }
    stream->shown = web->shown;
    if (!web->state)
        return MR_HTTP_END;
    web->state->holders++;
    *part = (mr_http_content){.type = "status", .data = web->state->text, .bytes = web->state->bytes,
                              .release = let_go, .owner = web->state};
    return MR_HTTP_DONE;
}

/* The next log line that the stream has not given and that is still kept. */
static bool next_line(mr_run_http_stream *stream, mr_run_http_line *line) {
    mr_run_http *web = stream->web;
    MR_LOCKED(&web->log_lock);
    if (stream->lines >= web->line_count)
        return false;
    if (web->line_count - stream->lines > MR_RUN_HTTP_LINES)
        stream->lines = web->line_count - MR_RUN_HTTP_LINES;
    *line = web->lines[stream->lines++ % MR_RUN_HTTP_LINES];
    return true;
}

static mr_http_reply give_line(const mr_run_http_line *line, mr_http_content *part) {
    size_t bytes;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    mr_run_http_put_line(json, line);
    char *text = mr_json_finish_text(json, &bytes);
    if (!text)
        return MR_HTTP_END;
    *part = (mr_http_content){.type = "log", .data = text, .bytes = bytes - 1, .release = free, .owner = text};
    return MR_HTTP_DONE;
}

static mr_http_reply next(void *state, mr_http_content *part) {
    mr_run_http_stream *stream = state;
    mr_run_http_line line;
    if (next_line(stream, &line))
        return give_line(&line, part);
    MR_LOCKED(&stream->web->lock);
    return stream->shown == stream->web->shown ? MR_HTTP_WAIT : give_state(stream, part);
}

static void end(void *state) {
    mr_run_http_stream *stream = state, **at = &stream->web->streams;
    pthread_mutex_lock(&stream->web->lock);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    if (!stream->web->streams) {
        let_go(stream->web->state);
        stream->web->state = NULL;
    }
    pthread_mutex_unlock(&stream->web->lock);
    free(stream);
}

mr_http_reply mr_run_http_answer_events(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    mr_run_http_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->lock);
    *stream = (mr_run_http_stream){.web = web, .request = request, .next = web->streams};
    web->streams = stream;
    pthread_mutex_unlock(&web->lock);
    mr_http_keep(request, stream, end);
    return mr_http_stream(request, MR_HTTP_EVENTS, next);
}

void mr_run_http_wake(mr_run_http *web) {
    for (mr_run_http_stream *stream = web->streams; stream; stream = stream->next)
        mr_http_wake(stream->request);
}
