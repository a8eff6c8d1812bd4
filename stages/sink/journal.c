#include "stages/sink/journal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/file.h"

/* The file's content; all zero is empty. */
typedef struct mr_journal_page {
    _Atomic uint64_t count; /* frames ever noted; the last ones are stored */
    _Atomic bool open;      /* a record was begun */
    _Atomic bool headed;    /* there is a header */
    mr_identity frame[MR_JOURNAL_FRAMES];
} mr_journal_page;

static const char *place(void) {
    return getenv("MILLRACE_WRITTEN");
}

static int map(mr_journal *journal, const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(mr_journal_page))) {
        int status = mr_file_fail("write to", path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    void *page = mmap(NULL, sizeof(mr_journal_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return mr_file_fail("map", path);
    journal->page = page;
    return MR_OK;
}

static int open_journal(mr_journal *journal, const mr_stage *self, mr_written *written, bool *torn) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.%s", place(), self->id);
    int status = map(journal, path);
    if (status)
        return status;
    mr_journal_page *page = journal->page;
    uint64_t count = atomic_load(&page->count);
    for (uint64_t i = count > MR_JOURNAL_FRAMES ? count - MR_JOURNAL_FRAMES : 0; !status && i < count; i++)
        status = mr_written_add(written, &page->frame[i % MR_JOURNAL_FRAMES]);
    *torn = atomic_load(&page->open);
    return status;
}

int mr_journal_open_stream(mr_journal *journal, mr_output *output, const mr_stage *self, mr_written *written,
                           const char *line_end) {
    bool torn = false;
    if (mr_stage_checkpoints(self) && !place())
        return mr_fail(MR_ERROR_CONFIG, "output to %s cannot be continued (--resume): give a file as path",
                       strcmp(written->path, "-") == 0 ? "standard output" : written->path);
    int status = mr_output_open(output, written->path);
    if (!status && mr_stage_checkpoints(self))
        status = open_journal(journal, self, written, &torn);
    return !status && torn ? mr_output_write(output, self, line_end, strlen(line_end)) : status;
}

void mr_journal_close(mr_journal *journal) {
    if (journal->page)
        munmap(journal->page, sizeof *journal->page);
    journal->page = NULL;
}

bool mr_journal_has_header(const mr_journal *journal) {
    return journal->page && atomic_load(&journal->page->headed);
}

void mr_journal_note_header(mr_journal *journal) {
    if (journal->page)
        atomic_store_explicit(&journal->page->headed, true, memory_order_release);
}

void mr_journal_begin(mr_journal *journal) {
    if (journal->page)
        atomic_store_explicit(&journal->page->open, true, memory_order_release);
}

void mr_journal_note(mr_journal *journal, const mr_identity *frame) {
    mr_journal_page *page = journal->page;
    if (!page)
        return;
    uint64_t count = atomic_load_explicit(&page->count, memory_order_relaxed);
    page->frame[count % MR_JOURNAL_FRAMES] = *frame;
    atomic_store_explicit(&page->count, count + 1, memory_order_release);
    atomic_store_explicit(&page->open, false, memory_order_release);
}
