#include "engine/base/names.h"

#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { LEAST_SLOTS = 64 };

struct mr_names {
    pthread_mutex_t lock;
    char **slot;  /* open addressing; NULL: free. A slot once taken stays */
    size_t slots; /* a power of two, must be at least twice `count` */
    size_t count;
    size_t most, most_bytes; /* a share's limits */
    mr_names_share own;      /* for no known process */
};

int mr_names_create(mr_names **names, size_t most, size_t most_bytes) {
    mr_names *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of names");
    pthread_mutex_init(&made->lock, NULL);
    made->most = most;
    made->most_bytes = most_bytes;
    made->slots = LEAST_SLOTS;
    made->slot = mr_calloc(made->slots, sizeof *made->slot);
    if (!made->slot) {
        mr_names_destroy(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of names");
    }
    *names = made;
    return MR_OK;
}

void mr_names_destroy(mr_names **names) {
    mr_names *gone = *names;
    *names = NULL;
    if (!gone)
        return;
    for (size_t i = 0; gone->slot && i < gone->slots; i++)
        mr_free(gone->slot[i]);
    mr_free(gone->slot);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

/* The slot that holds the text, or the free slot for it. There is always one: at most half are used. */
static char **find(mr_names *names, const char *text, size_t bytes) {
    size_t at = (size_t)XXH3_64bits(text, bytes) & (names->slots - 1);
    while (names->slot[at] && (strncmp(names->slot[at], text, bytes) != 0 || names->slot[at][bytes]))
        at = (at + 1) & (names->slots - 1);
    return &names->slot[at];
}

/* Twice the slots, before more than half would be taken. */
static int grow(mr_names *names) {
    mr_names larger = {.slots = 2 * names->slots};
    larger.slot = mr_calloc(larger.slots, sizeof *larger.slot);
    if (!larger.slot)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of %zu names", names->count);
    for (size_t i = 0; i < names->slots; i++)
        if (names->slot[i])
            *find(&larger, names->slot[i], strlen(names->slot[i])) = names->slot[i];
    mr_free(names->slot);
    names->slot = larger.slot;
    names->slots = larger.slots;
    return MR_OK;
}

static int add(mr_names *names, mr_names_share *share, const char *text, size_t bytes, const char **kept) {
    if (share->count >= names->most || bytes >= names->most_bytes - share->bytes)
        return mr_fail(MR_ERROR_PROTOCOL,
                       "more names than the %zu, of %zu bytes together, that are kept of one process", names->most,
                       names->most_bytes);
    int status = 2 * (names->count + 1) > names->slots ? grow(names) : MR_OK;
    char *copy = status ? NULL : mr_alloc(bytes + 1);
    if (!status && !copy)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a name of %zu bytes", bytes);
    if (status)
        return status;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    names->count++;
    share->count++;
    share->bytes += bytes + 1;
    *find(names, copy, bytes) = copy;
    *kept = copy;
    return MR_OK;
}

int mr_names_keep(mr_names *names, mr_names_share *share, const char *text, size_t bytes, const char **kept) {
    pthread_mutex_lock(&names->lock);
    const char *found = *find(names, text, bytes);
    int status = found ? MR_OK : add(names, share ? share : &names->own, text, bytes, &found);
    pthread_mutex_unlock(&names->lock);
    if (!status)
        *kept = found;
    return status;
}
