#include "engine/base/names.h"

#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

struct mr_names {
    pthread_mutex_t lock;
    char **slot;  /* open addressing; NULL: free. A slot once taken stays */
    size_t slots; /* a power of two, at least twice `most` */
    size_t count, most;
    size_t bytes, most_bytes;
};

int mr_names_create(mr_names **names, size_t most, size_t most_bytes) {
    mr_names *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of names");
    pthread_mutex_init(&made->lock, NULL);
    made->most = most;
    made->most_bytes = most_bytes;
    made->slots = 8;
    while (made->slots < 2 * most)
        made->slots *= 2;
    made->slot = mr_calloc(made->slots, sizeof *made->slot);
    if (!made->slot) {
        mr_names_destroy(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of %zu names", most);
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

/* The slot that holds the text, or the free one where it belongs. There always is one: at most half are taken. */
static char **find(mr_names *names, const char *text, size_t bytes) {
    size_t at = (size_t)XXH3_64bits(text, bytes) & (names->slots - 1);
    while (names->slot[at] && (strncmp(names->slot[at], text, bytes) != 0 || names->slot[at][bytes]))
        at = (at + 1) & (names->slots - 1);
    return &names->slot[at];
}

static int add(mr_names *names, char **slot, const char *text, size_t bytes) {
    if (names->count == names->most || bytes >= names->most_bytes - names->bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "more names than the %zu, of %zu bytes together, that are kept", names->most,
                       names->most_bytes);
    char *copy = mr_alloc(bytes + 1);
    if (!copy)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a name of %zu bytes", bytes);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    names->count++;
    names->bytes += bytes + 1;
    *slot = copy;
    return MR_OK;
}

int mr_names_keep(mr_names *names, const char *text, size_t bytes, const char **kept) {
    pthread_mutex_lock(&names->lock);
    char **slot = find(names, text, bytes);
    int status = *slot ? MR_OK : add(names, slot, text, bytes);
    const char *found = *slot;
    pthread_mutex_unlock(&names->lock);
    if (!status)
        *kept = found;
    return status;
}
