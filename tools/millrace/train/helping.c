#include "tools/millrace/train/helping.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/audit.h"
#include "millrace/log.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/run/signals.h"
#include "tools/millrace/train/extract_parts.h"
#include "tools/millrace/train/stop.h"

/* Less work than this, rows x numbers x classes, is done before its messages have come. */
static const double LEAST_WORK = 2.5e8;
static const int64_t PATIENCE_NS = 5000000000;
enum { MOST_HELPERS = 256 };

static mr_fit_helper list[MOST_HELPERS];
static char names[MOST_HELPERS][96];

/* ---- which nodes help -------------------------------------------------------------------------------------------- */

/* Where a node gives its frames; NULL: it gives none, and listens nowhere. */
static const mr_view_cut *given_by(const mr_plan_view *plan, int node) {
    for (size_t c = 0; c < plan->cut_count; c++)
        if (plan->cuts[c].from == node)
            return &plan->cuts[c];
    return NULL;
}

/* A node with a key takes only peers with one. */
static bool can_help(const mr_extraction *extraction, int node) {
    const mr_plan_view *plan = extraction->nodes;
    const bool keyed = plan->nodes[node].key != NULL, home_keyed = plan->nodes[extraction->home].key != NULL;
    return node != extraction->home && given_by(plan, node) && (home_keyed || !keyed);
}

static void list_helpers(mr_helping *to) {
    const mr_plan_view *plan = to->extraction->nodes;
    mr_fit_helpers *helpers = &to->helpers;
    for (int n = 0; n < (int)plan->node_count; n++) {
        const mr_view_cut *cut = can_help(to->extraction, n) ? given_by(plan, n) : NULL;
        for (size_t r = 0; cut && r < cut->connect_count && helpers->count < MOST_HELPERS; r++) {
            snprintf(names[helpers->count], sizeof names[0], "%.64s.%zu", plan->nodes[n].id, r);
            list[helpers->count] = (mr_fit_helper){.name = names[helpers->count], .endpoint = cut->connect[r],
                                                   .server = plan->nodes[n].public_key};
            helpers->count++;
        }
    }
    helpers->helpers = list;
    helpers->key = plan->nodes[to->extraction->home].key;
    helpers->pipeline = plan->digest;
    helpers->rows = to->rows;
    helpers->patience_ns = PATIENCE_NS;
}

static bool is_linear(const mr_fit_params *fit) {
    return fit->kind == MR_CLASSIFIER_SOFTMAX || fit->kind == MR_CLASSIFIER_LOGISTIC ||
           fit->kind == MR_CLASSIFIER_SQUARED_HINGE;
}

static double work_of(const mr_labelled_rows *rows) {
    size_t train = 0;
    for (size_t i = 0; i < rows->rows; i++)
        train += rows->parts[i] == MR_ROW_TRAIN;
    return (double)train * (double)rows->width * (double)rows->class_count;
}

/* Why nodes cannot help; "": they can. */
static const char *hindrance(const mr_helping *of, const mr_fit_params *fit) {
    return !is_linear(fit)           ? "only fits of softmax, logistic and squared-hinge are shared"
           : fit->device_count       ? "the devices of this process multiply"
           : of->helpers.count == 0  ? "no other node listens with a key that fits"
                                     : "";
}

/* Why they had better not. */
static const char *objection(const mr_helping *of, const mr_labelled_rows *rows) {
    return of->place == MR_FIT_AT_HOME                           ? "as --fit says"
           : of->place == MR_FIT_ON_NODES                        ? ""
           : of->extraction->role == MR_EXTRACTION_WATCHES       ? "this process has the cores of all nodes"
           : work_of(rows) < LEAST_WORK                          ? "there is less work than messages"
                                                                 : "";
}

/* ---- the process that watches ------------------------------------------------------------------------------------ */

/* Nothing else runs in this process yet, so it may be forked. The new one dies with it, and the nodes with that one. */
static int start_nodes(mr_helping *h) {
    const pid_t self = getpid();
    h->supervisor = fork();
    if (h->supervisor < 0) {
        h->supervisor = 0;
        return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start the nodes: %s", strerror(errno));
    }
    if (h->supervisor)
        return MR_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* signals of the terminal are for the process that fits */
    if (getppid() != self)
        _exit(0);
    setenv("MILLRACE_RUNTIME", h->sockets.folder, 1);
    _exit(mr_extraction_supervise(h->extraction));
}

static int find_nodes(mr_helping *h) {
    mr_extraction *extraction = h->extraction;
    int status = mr_aside_make(&h->folder, extraction->spread->cache);
    if (!status)
        status = mr_aside_make(&h->sockets, NULL);
    if (status)
        return status;
    snprintf(extraction->folder, sizeof extraction->folder, "%s", h->folder.folder);
    setenv("MILLRACE_RUNTIME", h->sockets.folder, 1); /* where the nodes listen that have no address of their own */
    mr_plan_view_close(&extraction->nodes);
    status = mr_extraction_plan_nodes(extraction);
    return status ? status : mr_extraction_write_empty(extraction);
}

/* ---- home -------------------------------------------------------------------------------------------------------- */

/* False: it failed, which is told. */
static bool close_rows(const mr_helping *h) {
    if (!mr_file_replace(h->rows, "", 0))
        return true;
    mr_log(MR_LOG_WARNING, "%s cannot be written (%s): nodes that wait for it must be ended", h->rows,
           strerror(errno));
    return false;
}

static int choose(mr_helping *h, const mr_fit_params *fit, const mr_labelled_rows *rows) {
    list_helpers(h);
    const char *why = hindrance(h, fit);
    if (*why && h->place == MR_FIT_ON_NODES)
        return mr_fail(MR_ERROR_USAGE, "--fit nodes: the nodes cannot help with this fit: %s", why);
    snprintf(h->why, sizeof h->why, "%s", *why ? why : objection(h, rows));
    return MR_OK;
}

int mr_helping_begin(mr_helping *h, mr_fit_params *fit, const mr_labelled_rows *rows) {
    mr_extraction *extraction = h->extraction;
    if (!extraction->nodes)
        return MR_OK;
    int status = choose(h, fit, rows);
    if (!status && !*h->why && extraction->role == MR_EXTRACTION_WATCHES)
        status = find_nodes(h);
    if (!status && extraction->role == MR_EXTRACTION_HOME)
        status = mr_extraction_name_folder(extraction);
    if (status)
        return status;
    mr_extraction_rows(extraction, h->rows, sizeof h->rows);
    if (!*h->why) {
        h->helpers.count = 0;
        list_helpers(h);
        fit->helpers = &h->helpers;
    } else if (extraction->role == MR_EXTRACTION_HOME) {
        close_rows(h);
    }
    return *h->why || extraction->role != MR_EXTRACTION_WATCHES ? MR_OK : start_nodes(h);
}

void mr_helping_end(mr_helping *h, int status) {
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    if (h->extraction->role == MR_EXTRACTION_HOME && mr_extraction_is_final(status) &&
        !mr_extraction_name_folder(h->extraction)) {
        mr_extraction_rows(h->extraction, h->rows, sizeof h->rows);
        close_rows(h);
    }
    if (h->supervisor) {
        if (!close_rows(h))
            kill(h->supervisor, SIGTERM);
        while (waitpid(h->supervisor, NULL, 0) < 0 && errno == EINTR)
            ;
        h->supervisor = 0;
    }
    mr_aside_remove(&h->folder);
    mr_aside_remove(&h->sockets);
    if (status)
        mr_fail(status, "%s", message); /* the one of before counts */
}

/* ---- a node ------------------------------------------------------------------------------------------------------ */

/* What a node looks at while it waits or helps: the list of files, and the rows. */
typedef struct watched {
    const mr_extraction *extraction;
    char rows[MR_ASIDE + 32], list[MR_ASIDE + 32];
    struct stat served; /* the rows at hand, or the list that was worked off */
    struct stat list_served;
    bool has_list;
} watched;

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Home was started again, and wants vectors that it had not kept. */
static bool has_new_list(const watched *w) {
    struct stat now;
    return !stat(w->list, &now) && now.st_size > 0 && !(w->has_list && is_same(&now, &w->list_served));
}

static bool is_over(void *user) {
    const watched *w = user;
    struct stat now;
    return mr_stop_asked() || stat(w->rows, &now) || !is_same(&now, &w->served) || has_new_list(w);
}

static int help(watched *w) {
    const mr_extraction *extraction = w->extraction;
    const mr_plan_view *plan = extraction->nodes;
    const mr_view_node *node = &plan->nodes[plan->node];
    const mr_fit_help help = {.name = node->id,
                              .rows = w->rows,
                              .pipeline = plan->digest,
                              .endpoint = given_by(plan, plan->node)->listen,
                              .key = node->key,
                              .allow = plan->nodes[extraction->home].public_key,
                              .threads = extraction->overrides->workers,
                              .stopped = is_over,
                              .user = w};
    int status = mr_run_audit_open(extraction->spread->run.audit);
    if (!status)
        status = mr_fit_help_serve(&help);
    mr_audit_close();
    return status;
}

static int help_all(watched *w, bool *again) {
    int status = MR_OK;
    while (!status && !mr_stop_asked()) {
        *again = has_new_list(w);
        if (*again)
            return MR_OK;
        if (stat(w->rows, &w->served))
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        else if (w->served.st_size == 0)
            return MR_OK;
        else
            status = help(w);
    }
    return status;
}

/* Those that ask the node to end do so at once from here on. */
static void take_signals(void) {
    sigset_t blocked;
    sigemptyset(&blocked);
    mr_signals_add(&blocked);
    mr_stop_begin();
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
}

int mr_helping_serve(const mr_extraction *extraction, bool *again) {
    watched w = {.extraction = extraction};
    *again = false;
    if (!can_help(extraction, extraction->nodes->node))
        return MR_OK;
    mr_extraction_rows(extraction, w.rows, sizeof w.rows);
    mr_extraction_list(extraction, w.list, sizeof w.list);
    w.has_list = !stat(w.list, &w.list_served);
    take_signals();
    return help_all(&w, again);
}
