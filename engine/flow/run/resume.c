#include "engine/flow/run/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/receipt.h"
#include "engine/flow/run/resume_plan.h"
#include "millrace/log.h"

enum { VERSION = 1, MOST_BYTES = 16 << 20, OF_TEXT = 17, INTERVAL_NS = 1000000000 };

/* One source's state: as in the checkpoint, or now. */
typedef struct mark {
    char of[OF_TEXT];
    bool any, over;     /* any: it has a reach; over: everything was settled */
    mr_reach_frame last;
    atomic_bool exhausted;
} mark;

struct mr_resume {
    const mr_run *run;
    char *path;
    bool *passes;         /* by vertex: must process settled frames again */
    int (*sync)(void *context); /* writes the sinks' output to disk */
    void *context;
    int lock_fd;          /* keeps other runs away from the checkpoint */
    size_t source_count;
    mark *marks;
    bool continues;
    char id[MR_RUN_ID_TEXT]; /* the run's; "": it continues one whose checkpoint has none */
    pthread_t thread;
    bool begun;           /* this run has written the checkpoint */
    bool running;         /* the thread runs */
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    bool ending;
    uint64_t moved;       /* digest of the last checkpoint: any change in a reach changes it */
    int status;           /* from the last failed write, until one succeeds */
    bool lost;            /* some sink output did not reach the disk; how much is unknown */
    bool said;            /* a failed write was logged */
    char message[512];
};

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int not_ours(const mr_resume *resume, const char *why) {
    return mr_fail(MR_ERROR_DATA,
                   "%s is no checkpoint of this pipeline: %s; remove it to start from the beginning, with the results "
                   "of the earlier run written over", resume->path, why);
}

/* A malformed or negative number must be refused: it would settle frames that were never seen. */
static int read_number(mr_resume *resume, const char *id, const char *name, yajl_val value, int64_t most,
                       int64_t *number) {
    *number = YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : -1;
    if (*number >= 0 && *number <= most)
        return MR_OK;
    return mr_fail(
        MR_ERROR_DATA,
        "%s: sources.%.100s.%s is %.40s, and a whole number from 0 to %lld is expected (or null "
        "for both epoch and seq): the checkpoint is damaged; remove it to start from the beginning, with the results "
        "of the earlier run written over",
        resume->path, id, name,
        YAJL_IS_NUMBER(value) ? YAJL_GET_NUMBER(value)
        : value               ? "no number"
                              : "missing",
        (long long)most);
}

/* Reads the source's reach: two numbers, or null for both. */
static int read_reach(mr_resume *resume, const char *id, yajl_val one, mark *to) {
    yajl_val epoch = mr_json_member(one, "epoch", yajl_t_any), seq = mr_json_member(one, "seq", yajl_t_any);
    int64_t numbers[2];
    to->any = !(YAJL_IS_NULL(epoch) && YAJL_IS_NULL(seq));
    if (!to->any)
        return MR_OK;
    int status = read_number(resume, id, "epoch", epoch, UINT32_MAX, &numbers[0]);
    if (!status)
        status = read_number(resume, id, "seq", seq, INT64_MAX, &numbers[1]);
    if (!status)
        to->last = (mr_reach_frame){.epoch = (uint32_t)numbers[0], .seq = (uint64_t)numbers[1]};
    return status;
}

static int read_mark(mr_resume *resume, uint32_t source, yajl_val sources) {
    const char *id = resume->run->plan->vertices[source].id;
    mark *to = &resume->marks[source];
    yajl_val one = mr_json_member(sources, id, yajl_t_object), of = mr_json_member(one, "of", yajl_t_string);
    yajl_val ended = mr_json_member(one, "ended", yajl_t_any);
    char why[256];
    if (!one)
        snprintf(why, sizeof why, "it has no source %.100s", id);
    else if (!YAJL_IS_STRING(of) || strcmp(of->u.string, to->of) != 0)
        snprintf(why, sizeof why, "the options of source %.100s have changed", id);
    else if (!YAJL_IS_TRUE(ended) && !YAJL_IS_FALSE(ended))
        snprintf(why, sizeof why, "sources.%.100s.ended is neither true nor false", id);
    else
        why[0] = '\0';
    if (*why)
        return not_ours(resume, why);
    to->over = YAJL_IS_TRUE(ended);
    return read_reach(resume, id, one, to);
}

/* Checkpoints of earlier versions have none. */
static int read_id(mr_resume *resume, yajl_val id) {
    if (id && !mr_run_id_is(YAJL_GET_STRING(id)))
        return not_ours(resume, "its \"run\" is not 16 hexadecimal digits");
    snprintf(resume->id, sizeof resume->id, "%s", id ? YAJL_GET_STRING(id) : "");
    return MR_OK;
}

static int take_checkpoint(mr_resume *resume, const char *text) {
    char wrong[128];
    yajl_val all = mr_json_parse(text, wrong, sizeof wrong);
    yajl_val version = mr_json_member(all, "checkpoint", yajl_t_number);
    yajl_val sources = mr_json_member(all, "sources", yajl_t_object);
    int status = MR_OK;
    /* Not to be removed: it may be a pipeline, or results. */
    if (!version || !sources)
        status = mr_fail(MR_ERROR_DATA, "%s is no checkpoint: it is another kind of file, or damaged; name another for "
                                        "--resume, or remove it if nothing else needs it", resume->path);
    else if (!YAJL_IS_INTEGER(version) || YAJL_GET_INTEGER(version) != VERSION)
        status = not_ours(resume, "another version of millrace has written it");
    if (!status)
        status = read_id(resume, mr_json_member(all, "run", yajl_t_any));
    for (uint32_t s = 0; !status && s < resume->source_count; s++)
        if (mr_plan_is_here(resume->run->plan, &resume->run->plan->vertices[s]))
            status = read_mark(resume, s, sources);
    yajl_tree_free(all);
    resume->continues = !status;
    return status;
}

static int read_checkpoint(mr_resume *resume) {
    mr_file_bytes file;
    if (access(resume->path, F_OK) && errno == ENOENT)
        return MR_OK;
    int status = mr_file_read("the checkpoint", resume->path, MOST_BYTES, 0, &file);
    if (status)
        return status;
    status = take_checkpoint(resume, (const char *)file.data);
    mr_free(file.data);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* The source's reach now. It never goes back, although old frames come again. */
static void look(mr_resume *resume, uint32_t source, mark *now) {
    const mark *before = &resume->marks[source];
    bool all_closed = false;
    now->any = mr_ledger_reach(resume->run->ledger, source, &now->last, &all_closed);
    const mr_identity at = {.source = source, .epoch = now->last.epoch, .seq = now->last.seq};
    if (!now->any || mr_resume_settled(resume, &at)) {
        now->any = before->any;
        now->last = before->last;
    }
    now->over = before->over || (atomic_load(&before->exhausted) && all_closed);
}

static void put_mark(yajl_gen json, const char *id, const char *of, const mark *now) {
    MR_JSON_MAP(json, id) {
        mr_json_text(json, "of", of);
        mr_json_key(json, "epoch");
        if (now->any)
            yajl_gen_integer(json, now->last.epoch);
        else
            yajl_gen_null(json);
        mr_json_key(json, "seq");
        if (now->any)
            yajl_gen_integer(json, (long long)now->last.seq);
        else
            yajl_gen_null(json);
        mr_json_bool(json, "ended", now->over);
    }
}

static int print(const mr_resume *resume, const mark *now, yajl_gen json) {
    const mr_plan *plan = resume->run->plan;
    bool complete = true;
    for (uint32_t s = 0; s < resume->source_count; s++)
        complete &= !mr_plan_is_here(plan, &plan->vertices[s]) || now[s].over;
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "checkpoint", VERSION);
        mr_json_text(json, "pipeline", plan->name);
        mr_json_bool(json, "complete", complete);
        if (*resume->id)
            mr_json_text(json, "run", resume->id);
        MR_JSON_MAP(json, "sources")
            for (uint32_t s = 0; s < resume->source_count; s++)
                if (mr_plan_is_here(plan, &plan->vertices[s]))
                    put_mark(json, plan->vertices[s].id, resume->marks[s].of, &now[s]);
    }
    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen_get_buf(json, &text, &bytes);
    return mr_file_replace(resume->path, text, bytes);
}

/* MR_ERROR_AGAIN if a sink cannot yet decide whether to keep existing output: a checkpoint would decide it. */
static int sync_sinks(mr_resume *resume) {
    int status = resume->sync(resume->context);
    resume->lost |= status && status != MR_ERROR_AGAIN;
    return status;
}

/* Reads the reach, then syncs the sinks, then writes the file: so the checkpoint never claims more than is on disk. */
static int save(mr_resume *resume, bool always) {
    mark *now = mr_calloc(resume->source_count + 1, sizeof *now);
    yajl_gen json = mr_json_create(true);
    uint64_t moved = 1;
    int status = now && json ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a checkpoint");
    for (uint32_t s = 0; !status && s < resume->source_count; s++) {
        look(resume, s, &now[s]);
        const uint64_t parts[] = {moved, now[s].any, now[s].over, now[s].last.epoch, now[s].last.seq};
        moved = XXH64(parts, sizeof parts, s);
    }
    bool write = always || moved != resume->moved;
    if (!status && write)
        status = sync_sinks(resume);
    if (!status && write)
        status = print(resume, now, json);
    if (!status)
        resume->moved = moved;
    if (json)
        yajl_gen_free(json);
    mr_free(now);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void note(mr_resume *resume, int status) {
    resume->status = status;
    if (!status || resume->said)
        return;
    resume->said = true;
    snprintf(resume->message, sizeof resume->message, "%s", mr_message());
    mr_log_repeating(MR_LOG_ERROR, "checkpoint", "no checkpoint could be written: %s", resume->message);
}

static void *keep(void *context) {
    mr_resume *resume = context;
    MR_LOCKED(&resume->lock);
    while (!resume->ending) {
        const struct timespec until = mr_condition_until(INTERVAL_NS);
        while (!resume->ending && pthread_cond_timedwait(&resume->changed, &resume->lock, &until) != ETIMEDOUT)
            ;
        if (!resume->ending && !resume->lost)
            note(resume, save(resume, false));
    }
    return NULL;
}

int mr_resume_begin(mr_resume *resume, int (*sync)(void *context), void *context) {
    if (!resume)
        return MR_OK;
    resume->sync = sync;
    resume->context = context;
    int status = save(resume, true);
    resume->begun = !status;
    if (status || resume->run->seed)
        return status;
    const int error = mr_thread_create(&resume->thread, keep, resume);
    if (error)
        return mr_thread_fail(error, "the thread for checkpoints");
    pthread_setname_np(resume->thread, "mr-checkpoint");
    resume->running = true;
    return MR_OK;
}

int mr_resume_end(mr_resume *resume) {
    if (!resume || !resume->begun)
        return MR_OK;
    pthread_mutex_lock(&resume->lock);
    bool first = !resume->ending;
    resume->ending = true;
    pthread_cond_broadcast(&resume->changed);
    pthread_mutex_unlock(&resume->lock);
    if (first && resume->running)
        pthread_join(resume->thread, NULL);
    if (first && !resume->lost)
        note(resume, save(resume, true));
    return resume->status ? mr_fail(resume->status, "%s", resume->message) : MR_OK;
}

void mr_resume_exhausted(mr_resume *resume, uint32_t source) {
    if (resume)
        atomic_store(&resume->marks[source].exhausted, true);
}

/* ---- questions ------------------------------------------------------------------------------------------------- */

bool mr_resume_continues(const mr_resume *resume) {
    return resume && resume->continues;
}

bool mr_resume_any_settled(const mr_resume *resume) {
    bool any = false;
    for (uint32_t s = 0; mr_resume_continues(resume) && s < resume->source_count; s++)
        any |= resume->marks[s].any || resume->marks[s].over;
    return any;
}

bool mr_resume_settled(const mr_resume *resume, const mr_identity *frame) {
    if (!resume)
        return false;
    const mark *at = &resume->marks[frame->source];
    if (!at->any || frame->epoch != at->last.epoch)
        return at->any && frame->epoch < at->last.epoch;
    return frame->seq <= at->last.seq;
}

bool mr_resume_leaves_out(const mr_resume *resume, const mr_plan_vertex *stage, const mr_frame *frame) {
    const mr_plan *plan = resume->run->plan;
    return !resume->passes[stage - plan->vertices] && frame->receipt && frame->receipt->page < plan->source_count &&
           mr_resume_settled(resume, &frame->receipt->frame);
}

bool mr_resume_over(const mr_resume *resume, uint32_t source) {
    return resume && resume->marks[source].over;
}

const char *mr_resume_run(const mr_resume *resume) {
    return resume && *resume->id ? resume->id : NULL;
}

uint32_t mr_resume_epoch(const mr_resume *resume, uint32_t source) {
    return resume && resume->marks[source].any ? resume->marks[source].last.epoch : 0;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

int mr_resume_create(mr_resume **resume, const mr_run *run, const char *path) {
    mr_resume *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a checkpoint");
    made->run = run;
    made->lock_fd = -1;
    snprintf(made->id, sizeof made->id, "%s", run->id.text);
    made->source_count = run->plan->source_count;
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    made->path = mr_strdup(path);
    made->marks = mr_calloc(made->source_count + 1, sizeof *made->marks);
    int status = made->path && made->marks ? mr_resume_check(run->plan)
                                           : mr_fail(MR_ERROR_MEMORY, "no memory for a checkpoint");
    for (uint32_t s = 0; !status && s < made->source_count; s++)
        snprintf(made->marks[s].of, OF_TEXT, "%016" PRIx64, mr_resume_digest(&run->plan->vertices[s]));
    if (!status)
        status = mr_file_lock(path, &made->lock_fd);
    if (!status)
        status = read_checkpoint(made);
    if (!status)
        status = mr_resume_mark(run->plan, &made->passes);
    if (!status)
        mr_ledger_follow(run->ledger);
    if (status)
        mr_resume_destroy(&made);
    *resume = made;
    return status;
}

void mr_resume_destroy(mr_resume **resume) {
    mr_resume *gone = *resume;
    if (!gone)
        return;
    mr_resume_end(gone);
    mr_file_unlock(gone->path, gone->lock_fd);
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->path);
    mr_free(gone->marks);
    mr_free(gone->passes);
    mr_free(gone);
    *resume = NULL;
}
