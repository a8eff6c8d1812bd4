#include "engine/observe/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { CLOSED = -1 };

/* How often another process that holds the file's lock is waited for: a millisecond each time. */
enum { MOST_WAITS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the fields below */
static int fd = CLOSED;
static bool regular; /* it is a regular file, of which the end can be read, and locked against others */
static bool torn;    /* it is not whole, and has the start of an entry */
static bool complained;
static char name[PATH_MAX];
static uint64_t lost; /* entries that could not be written since one was */

/* ---- the file -------------------------------------------------------------------------------------------------- */

static int open_file(const char *path, int *opened, struct stat *found) {
    *opened = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK, 0640);
    if (*opened < 0)
        return mr_file_fail("write to", path);
    if (!fstat(*opened, found))
        return MR_OK;
    int status = mr_file_fail("look at", path);
    close(*opened);
    return status;
}

/* With the lock. */
static void use(int opened, const struct stat *found) {
    if (fd != CLOSED)
        close(fd);
    fd = opened;
    regular = S_ISREG(found->st_mode);
    torn = false;
}

int mr_audit_open(const char *path) {
    int opened;
    struct stat found;
    int status = open_file(path, &opened, &found);
    if (status)
        return status;
    MR_LOCKED(&lock);
    use(opened, &found);
    snprintf(name, sizeof name, "%s", path);
    complained = false;
    lost = 0;
    return MR_OK;
}

int mr_audit_reopen(void) {
    int opened, status = MR_OK;
    struct stat found;
    MR_LOCKED(&lock);
    if (fd != CLOSED)
        status = open_file(name, &opened, &found);
    if (fd != CLOSED && !status)
        use(opened, &found);
    return status;
}

void mr_audit_close(void) {
    MR_LOCKED(&lock);
    if (fd != CLOSED)
        close(fd);
    fd = CLOSED;
}

bool mr_audit_wanted(void) {
    MR_LOCKED(&lock);
    return fd != CLOSED;
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

/* False if another process keeps the lock: a line is still one write, but a partial one stays. */
static bool lock_file(void) {
    const struct timespec while_others_write = {.tv_nsec = 1000000};
    for (int i = 0; i < MOST_WAITS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        nanosleep(&while_others_write, NULL);
    }
    return false;
}

static bool ends_within_line(off_t bytes) {
    char last = '\n';
    return bytes > 0 && pread(fd, &last, 1, bytes - 1) == 1 && last != '\n';
}

/* If another process has left a partial line, this begins a new line. If the disk is full, it removes the part that was
 * written: no other process has written meanwhile. If it cannot, any process's next entry begins a new line. */
static int write_line(const unsigned char *line, size_t bytes) {
    bool alone = regular && lock_file();
    off_t before = regular ? lseek(fd, 0, SEEK_END) : 0;
    size_t apart = regular ? ends_within_line(before) : torn;
    const struct iovec parts[] = {{.iov_base = "\n", .iov_len = apart},
                                  {.iov_base = (void *)(uintptr_t)line, .iov_len = bytes}};
    ssize_t written = writev(fd, parts, 2);
    int error = written < 0 ? errno : ENOSPC;
    bool whole = written == (ssize_t)(apart + bytes);
    torn = written > 0 ? !whole : torn;
    if (alone && written > 0 && !whole && ftruncate(fd, before))
        mr_log(MR_LOG_DEBUG, "the audit log now ends with part of an entry: %s", strerror(errno));
    if (alone)
        flock(fd, LOCK_UN);
    if (whole && (fdatasync(fd) == 0 || errno == EINVAL))
        return 0; /* EINVAL: a pipe, which has no disk */
    return whole ? errno : error;
}

static void put_field(yajl_gen json, const mr_audit_field *field) {
    if (field->counts)
        mr_json_integer(json, field->name, (int64_t)field->number);
    else
        mr_json_text(json, field->name, field->text);
}

/* NULL: no memory. */
static yajl_gen compose(const char *event, const mr_audit_field *fields) {
    char text[MR_DATE_TEXT];
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "time", mr_date_text(text, mr_clock_date_ns()));
        mr_json_integer(json, "pid", getpid());
        mr_json_text(json, "event", event);
        for (const mr_audit_field *field = fields; field->name; field++)
            put_field(json, field);
    }
    yajl_gen_reset(json, "\n");
    return json;
}

/* With the lock. The result as errno. */
static int append(const char *event, const mr_audit_field *fields) {
    const unsigned char *line = NULL;
    size_t bytes = 0;
    yajl_gen json = compose(event, fields);
    if (!json)
        return ENOMEM;
    yajl_gen_get_buf(json, &line, &bytes);
    int error = write_line(line, bytes);
    yajl_gen_free(json);
    return error;
}

void mr_audit_enter(const char *event, const mr_audit_field *fields) {
    MR_LOCKED(&lock);
    if (fd != CLOSED) {
        int error = 0;
        if (lost)
            error = append("entries lost", (const mr_audit_field[]){mr_audit_number("entries", lost), {.name = NULL}});
        lost = error ? lost : 0;
        if (!error)
            error = append(event, fields);
        lost += error != 0;
        if (error && !complained)
            mr_log(MR_LOG_ERROR, "the audit log cannot be written: %s", strerror(error));
        complained = error != 0;
    }
}

/* ---- how often ------------------------------------------------------------------------------------------------- */

static const double MOST_ENTRIES = 20, ENTRIES_PER_NS = 1e-9, STATES_PER_NS = 1e-9 / 60;

mr_audit_allowance mr_audit_allowance_at(int64_t now_ns) {
    return (mr_audit_allowance){.entries = MOST_ENTRIES, .counted_ns = now_ns};
}

/* Takes one entry, if there is one: `more` have been added since they were counted last. */
static bool take(double *entries, double more) {
    *entries += more;
    *entries = *entries < MOST_ENTRIES ? *entries : MOST_ENTRIES;
    const bool may = *entries >= 1;
    *entries -= may;
    return may;
}

bool mr_audit_may(mr_audit_allowance *allowance, int64_t now_ns) {
    const bool may = take(&allowance->entries, (double)(now_ns - allowance->counted_ns) * ENTRIES_PER_NS);
    allowance->counted_ns = now_ns;
    allowance->left_out += !may;
    return may;
}

bool mr_audit_may_state(mr_audit_states *states, int64_t now_ns, int state, bool final, uint64_t *left_out) {
    states->changes += state != states->last;
    states->last = state;
    if (state == states->entered)
        return false;
    const double more = states->counted_ns ? (double)(now_ns - states->counted_ns) * STATES_PER_NS : MOST_ENTRIES;
    states->counted_ns = now_ns;
    if (!take(&states->entries, more) && !final)
        return false;
    *left_out = states->changes - 1;
    states->changes = 0;
    states->entered = state;
    return true;
}

uint64_t mr_audit_left_out(mr_audit_allowance *allowance) {
    uint64_t count = allowance->left_out;
    allowance->left_out = 0;
    return count;
}

void mr_audit_settle(mr_audit_allowance *allowance, const char *of, const char *where, const char *id) {
    uint64_t count = mr_audit_left_out(allowance);
    if (count)
        mr_audit("left out", mr_audit_text(where, id), mr_audit_text("of", of), mr_audit_number("left_out", count));
}
