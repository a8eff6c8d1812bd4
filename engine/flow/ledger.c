#include "engine/flow/ledger.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"

/* One source's page. Frames are counted in without the lock; the rest is entered under it. */
typedef struct page {
    _Atomic uint64_t in;
    uint64_t delivered, dropped, absorbed, unaccounted;
    mr_ledger_line *lines;
    size_t line_count;
    mr_reach reach; /* where it is followed */
} page;

struct mr_ledger {
    pthread_mutex_t lock;
    bool followed, frozen; /* the reach of sources; it stands still */
    mr_ledger_tracing tracing;
    mr_receipt *free;
    size_t open;
    bool released;
    size_t source_count;
    page *pages; /* of each source's own frames, then of those that arrived */
};

int mr_ledger_create(mr_ledger **ledger, size_t source_count) {
    mr_ledger *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->pages = mr_calloc(2 * source_count + 1, sizeof *made->pages))) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the ledger of %zu sources", source_count);
    }
    pthread_mutex_init(&made->lock, NULL);
    made->source_count = source_count;
    *ledger = made;
    return MR_OK;
}

static void destroy(mr_ledger *ledger) {
    while (ledger->free) {
        mr_receipt *receipt = ledger->free;
        ledger->free = receipt->next;
        mr_free(receipt);
    }
    for (size_t i = 0; i < 2 * ledger->source_count; i++) {
        mr_free(ledger->pages[i].lines);
        mr_reach_fini(&ledger->pages[i].reach);
    }
    mr_free(ledger->pages);
    pthread_mutex_destroy(&ledger->lock);
    mr_free(ledger);
}

void mr_ledger_release(mr_ledger **ledger) {
    if (!*ledger)
        return;
    pthread_mutex_lock(&(*ledger)->lock);
    (*ledger)->released = true;
    bool last = (*ledger)->open == 0;
    pthread_mutex_unlock(&(*ledger)->lock);
    if (last)
        destroy(*ledger);
    *ledger = NULL;
}

void mr_ledger_trace(mr_ledger *ledger, const mr_ledger_tracing *tracing) {
    pthread_mutex_lock(&ledger->lock);
    ledger->tracing = tracing ? *tracing : (mr_ledger_tracing){0};
    pthread_mutex_unlock(&ledger->lock);
}

void mr_ledger_follow(mr_ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    ledger->followed = true;
    pthread_mutex_unlock(&ledger->lock);
}

void mr_ledger_freeze(mr_ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    ledger->frozen = true;
    pthread_mutex_unlock(&ledger->lock);
}

bool mr_ledger_reach(mr_ledger *ledger, uint32_t source, mr_reach_frame *last, bool *all) {
    pthread_mutex_lock(&ledger->lock);
    const mr_reach *reach = &ledger->pages[source].reach;
    bool any = reach->any;
    *last = reach->last;
    *all = reach->first == reach->next;
    pthread_mutex_unlock(&ledger->lock);
    return any;
}

/* Frames from other nodes are followed there. Called with the lock. */
static bool follows(const mr_ledger *ledger, uint32_t page_number) {
    return ledger->followed && page_number < ledger->source_count;
}

static int open_receipt(mr_ledger *ledger, const mr_receipt *filled, mr_receipt **receipt) {
    pthread_mutex_lock(&ledger->lock);
    mr_receipt *taken = ledger->free;
    if (taken)
        ledger->free = taken->next;
    else
        taken = mr_alloc(sizeof *taken);
    uint64_t number = 0;
    if (taken && follows(ledger, filled->page) &&
        mr_reach_open(&ledger->pages[filled->page].reach, &filled->frame, &number)) {
        mr_free(taken);
        taken = NULL;
    }
    if (taken)
        ledger->open++;
    pthread_mutex_unlock(&ledger->lock);
    if (!taken)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a receipt");
    *taken = *filled;
    taken->number = number;
    atomic_init(&taken->references, 1);
    atomic_fetch_add_explicit(&ledger->pages[filled->page].in, 1, memory_order_relaxed);
    *receipt = taken;
    return MR_OK;
}

int mr_ledger_open(mr_ledger *ledger, const mr_identity *frame, mr_receipt **receipt) {
    return open_receipt(ledger, &(mr_receipt){.frame = *frame, .ledger = ledger, .page = frame->source}, receipt);
}

static uint32_t page_of(const mr_ledger *ledger, uint32_t source, bool arrived) {
    return source + (arrived ? (uint32_t)ledger->source_count : 0);
}

int mr_ledger_arrive(mr_ledger *ledger, const mr_identity *frame, mr_receipt_watch *watch, void *context,
                     mr_receipt **receipt) {
    const mr_receipt filled = {.frame = *frame,
                               .ledger = ledger,
                               .page = page_of(ledger, frame->source, true),
                               .watch = watch,
                               .context = context};
    return open_receipt(ledger, &filled, receipt);
}

/* Once for each frame that the ledger will enter as dropped, which nothing changes any more. Called with the lock. */
static void trace_drop(const mr_ledger_tracing *tracing, const mr_receipt *receipt) {
    const mr_trace_about about = {
        .stage = receipt->stage, .source = tracing->sources[receipt->frame.source], .frame = receipt->frame};
    mr_trace_instant(tracing->trace, tracing->track, receipt->reason, mr_trace_now_ns(tracing->trace), &about);
}

void mr_receipt_note(mr_receipt *receipt, mr_note note, const char *stage, const char *reason) {
    if (!receipt)
        return;
    mr_note noted = atomic_load_explicit(&receipt->note, memory_order_relaxed);
    if (note == MR_NOTE_DELIVERED) {
        while (noted < note && !atomic_compare_exchange_weak_explicit(&receipt->note, &noted, note,
                                                                      memory_order_relaxed, memory_order_relaxed))
            ;
        return;
    }
    pthread_mutex_lock(&receipt->ledger->lock);
    while (noted < note) {
        if (!atomic_compare_exchange_weak_explicit(&receipt->note, &noted, note, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        receipt->stage = stage;
        receipt->reason = reason;
        if (note == MR_NOTE_DROPPED && receipt->ledger->tracing.trace)
            trace_drop(&receipt->ledger->tracing, receipt);
        break;
    }
    pthread_mutex_unlock(&receipt->ledger->lock);
}

/* Adds one frame to the line of that stage and reason. */
static void enter_line(page *account, mr_outcome outcome, const char *stage, const char *reason) {
    for (size_t i = 0; i < account->line_count; i++) {
        mr_ledger_line *line = &account->lines[i];
        if (line->outcome == outcome && strcmp(line->stage, stage) == 0 && strcmp(line->reason, reason) == 0) {
            line->frames++;
            return;
        }
    }
    mr_ledger_line *lines = mr_realloc(account->lines, (account->line_count + 1) * sizeof *lines);
    if (!lines)
        return; /* The total still counts it; only the breakdown is short of memory. */
    account->lines = lines;
    lines[account->line_count++] = (mr_ledger_line){outcome, stage, reason, 1};
}

static void enter(page *account, const mr_receipt *receipt) {
    switch (atomic_load_explicit(&receipt->note, memory_order_relaxed)) {
    case MR_NOTE_DELIVERED:
        account->delivered++;
        break;
    case MR_NOTE_DROPPED:
        account->dropped++;
        enter_line(account, MR_OUTCOME_DROPPED, receipt->stage, receipt->reason);
        break;
    case MR_NOTE_ABSORBED:
        account->absorbed++;
        enter_line(account, MR_OUTCOME_ABSORBED, receipt->stage, receipt->reason);
        break;
    case MR_NOTE_NONE:
        account->unaccounted++;
        break;
    }
}

static void close_receipt(mr_receipt *receipt) {
    mr_ledger *ledger = receipt->ledger;
    const mr_receipt closed = *receipt;
    pthread_mutex_lock(&ledger->lock);
    enter(&ledger->pages[receipt->page], receipt);
    if (follows(ledger, receipt->page) && !ledger->frozen)
        mr_reach_close(&ledger->pages[receipt->page].reach, receipt->number);
    receipt->next = ledger->free;
    ledger->free = receipt;
    bool last = --ledger->open == 0 && ledger->released;
    pthread_mutex_unlock(&ledger->lock);
    if (last)
        destroy(ledger);
    if (closed.watch)
        closed.watch(closed.context, closed.note, closed.stage, closed.reason);
}

mr_receipt *mr_receipt_ref(mr_receipt *receipt) {
    atomic_fetch_add_explicit(&receipt->references, 1, memory_order_relaxed);
    return receipt;
}

void mr_receipt_unref(mr_receipt **receipt) {
    mr_receipt *gone = *receipt;
    *receipt = NULL;
    if (gone && (atomic_load_explicit(&gone->references, memory_order_acquire) == 1 ||
                 atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) == 1))
        close_receipt(gone);
}

mr_ledger_count mr_ledger_source(mr_ledger *ledger, uint32_t source, bool arrived) {
    page *account = &ledger->pages[page_of(ledger, source, arrived)];
    pthread_mutex_lock(&ledger->lock);
    mr_ledger_count count = {
        .in = atomic_load_explicit(&account->in, memory_order_relaxed),
        .delivered = account->delivered,
        .dropped = account->dropped,
        .absorbed = account->absorbed,
        .unaccounted = account->unaccounted,
    };
    pthread_mutex_unlock(&ledger->lock);
    return count;
}

size_t mr_ledger_lines(mr_ledger *ledger, uint32_t source, bool arrived, mr_ledger_line **lines) {
    page *account = &ledger->pages[page_of(ledger, source, arrived)];
    pthread_mutex_lock(&ledger->lock);
    size_t count = account->line_count;
    *lines = mr_alloc((count + 1) * sizeof **lines);
    if (*lines && count)
        memcpy(*lines, account->lines, count * sizeof **lines);
    pthread_mutex_unlock(&ledger->lock);
    return *lines ? count : 0;
}
