#include "engine/flow/ledger/ledger.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"

enum { BUCKET_BITS = 12 };

/* One source's account. */
typedef struct page {
    uint64_t in, delivered, dropped, absorbed, unaccounted;
    mr_identity unsettled[MR_UNSETTLED_FRAMES]; /* the first frames that are unaccounted for */
    mr_receipt *first, *last; /* open receipts */
    uint64_t kept;            /* arrived objects that wait for their frames */
    mr_ledger_line *lines;
    size_t line_count;
    mr_reach reach; /* if followed */
    void (*emptied)(void *context); /* call it when no receipt is open; NULL: nobody waits */
    void *context;
} page;

struct mr_ledger {
    pthread_mutex_t lock;
    bool followed, frozen; /* followed: the reach of sources is recorded; frozen: it no longer moves */
    mr_ledger_tracing tracing;
    mr_spans *spans;       /* NULL: no frame is followed */
    mr_receipt *free;
    mr_receipt **buckets; /* arrived frames' open receipts; NULL: none arrived */
    size_t open;
    bool released;
    size_t source_count;
    page *pages; /* by mr_ledger_page, each with all sources */
};

int mr_ledger_create(mr_ledger **ledger, size_t source_count) {
    mr_ledger *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->pages = mr_calloc(MR_LEDGER_PAGES * source_count + 1, sizeof *made->pages))) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the ledger of %zu sources", source_count);
    }
    mr_lock_init(&made->lock);
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
    for (size_t i = 0; i < MR_LEDGER_PAGES * ledger->source_count; i++) {
        mr_free(ledger->pages[i].lines);
        mr_reach_fini(&ledger->pages[i].reach);
    }
    mr_free(ledger->pages);
    mr_free(ledger->buckets);
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
    MR_LOCKED(&ledger->lock);
    ledger->tracing = tracing ? *tracing : (mr_ledger_tracing){0};
}

void mr_ledger_set_spans(mr_ledger *ledger, mr_spans *spans) {
    MR_LOCKED(&ledger->lock);
    ledger->spans = spans;
}

void mr_ledger_follow(mr_ledger *ledger) {
    MR_LOCKED(&ledger->lock);
    ledger->followed = true;
}

void mr_ledger_freeze(mr_ledger *ledger) {
    MR_LOCKED(&ledger->lock);
    ledger->frozen = true;
}

bool mr_ledger_reach(mr_ledger *ledger, uint32_t source, mr_reach_frame *last, bool *all) {
    MR_LOCKED(&ledger->lock);
    const mr_reach *reach = &ledger->pages[source].reach;
    bool any = reach->any;
    *last = reach->last;
    *all = reach->first == reach->next;
    return any;
}

/* The other node follows the frames that it sent. With the lock. */
static bool follows(const mr_ledger *ledger, uint32_t page_number) {
    return ledger->followed && page_number < ledger->source_count;
}

static void close_receipt(mr_receipt *receipt);

static uint32_t page_of(const mr_ledger *ledger, uint32_t source, mr_ledger_page which) {
    return source + (uint32_t)which * (uint32_t)ledger->source_count;
}

static bool is_arrived(const mr_ledger *ledger, uint32_t page_number) {
    const uint32_t which = page_number / (uint32_t)ledger->source_count;
    return which == MR_LEDGER_ARRIVED || which == MR_LEDGER_ARRIVED_OBJECTS;
}

/* Begins the frame's span. `within`: that of the frame it is made from; NULL: it is a source's. With the lock. */
static void begin_span(mr_ledger *ledger, mr_receipt *receipt, const mr_span_context *within) {
    if (!within && !mr_spans_choose(ledger->spans, &receipt->frame, &receipt->context))
        return;
    if (within) {
        receipt->context = mr_spans_within(ledger->spans, within);
        receipt->parent_span = within->span;
    }
    receipt->opened_ns = mr_spans_now_ns(ledger->spans);
}

/* Opens a receipt with one reference and counts the frame in. `within`: as begin_span has it. With the lock. NULL: no
 * memory. */
static mr_receipt *open_receipt(mr_ledger *ledger, const mr_identity *frame, uint32_t page_number,
                                const mr_span_context *within) {
    page *account = &ledger->pages[page_number];
    mr_receipt *taken = ledger->free;
    uint64_t number = 0;
    if (taken)
        ledger->free = taken->next;
    else if (!(taken = mr_alloc(sizeof *taken)))
        return NULL;
    if (follows(ledger, page_number) && mr_reach_open(&account->reach, frame, &number)) {
        mr_free(taken);
        return NULL;
    }
    ledger->open++;
    *taken = (mr_receipt){.frame = *frame,
                          .findable = is_arrived(ledger, page_number),
                          .close = close_receipt,
                          .ledger = ledger,
                          .page = page_number,
                          .number = number,
                          .previous = account->last};
    *(account->last ? &account->last->next : &account->first) = taken;
    account->last = taken;
    if (ledger->spans && (!within || within->span))
        begin_span(ledger, taken, within);
    atomic_init(&taken->references, 1);
    account->in++;
    return taken;
}

int mr_ledger_open(mr_ledger *ledger, const mr_identity *frame, mr_receipt **receipt) {
    pthread_mutex_lock(&ledger->lock);
    mr_receipt *taken = open_receipt(ledger, frame, frame->source, NULL);
    pthread_mutex_unlock(&ledger->lock);
    if (!taken)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a receipt");
    *receipt = taken;
    return MR_OK;
}

/* ---- arrived frames -------------------------------------------------------------------------------------------- */

static mr_receipt **bucket_of(const mr_ledger *ledger, const mr_identity *frame) {
    uint64_t mixed = (frame->seq * 31 + frame->sub) * 31 + frame->epoch + ((uint64_t)frame->source << 7);
    return &ledger->buckets[(mixed * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BUCKET_BITS)];
}

/* Takes a reference, unless the last one is just being dropped. */
static bool catch_receipt(mr_receipt *receipt) {
    int references = atomic_load_explicit(&receipt->references, memory_order_relaxed);
    while (references > 0)
        if (atomic_compare_exchange_weak_explicit(&receipt->references, &references, references + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

/* A frame that comes back to this process has another receipt: the first one closes after it. */
static mr_receipt *find_open(const mr_ledger *ledger, const mr_identity *frame, int returned) {
    for (mr_receipt *receipt = *bucket_of(ledger, frame); receipt; receipt = receipt->chain)
        if (receipt->returned == returned && receipt->frame.source == frame->source &&
            mr_identity_compare(&receipt->frame, frame) == 0 && catch_receipt(receipt))
            return receipt;
    return NULL;
}

/* With the lock. NULL: no memory. */
static mr_receipt *arrive(mr_ledger *ledger, const mr_identity *frame, const mr_span_context *sent, int returned) {
    if (!ledger->buckets && !(ledger->buckets = mr_calloc((size_t)1 << BUCKET_BITS, sizeof(mr_receipt *))))
        return NULL;
    const mr_ledger_page which = frame->sub ? MR_LEDGER_ARRIVED_OBJECTS : MR_LEDGER_ARRIVED;
    mr_receipt *receipt = find_open(ledger, frame, returned);
    if (receipt || !(receipt = open_receipt(ledger, frame, page_of(ledger, frame->source, which), sent)))
        return receipt;
    mr_receipt **bucket = bucket_of(ledger, frame);
    receipt->returned = returned;
    receipt->chain = *bucket;
    *bucket = receipt;
    return receipt;
}

int mr_ledger_arrive(mr_ledger *ledger, const mr_identity *frame, const mr_span_context *sent,
                     mr_receipt_watcher *watcher, mr_receipt **receipt) {
    pthread_mutex_lock(&ledger->lock);
    mr_receipt *taken = arrive(ledger, frame, sent, watcher->returned);
    if (taken) {
        watcher->next = taken->watchers;
        taken->watchers = watcher;
    }
    pthread_mutex_unlock(&ledger->lock);
    if (!taken)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a receipt");
    *receipt = taken;
    return MR_OK;
}

/* ---- objects --------------------------------------------------------------------------------------------------- */

int mr_ledger_derive(mr_receipt *parent, const mr_identity *frame, mr_receipt **receipt) {
    mr_ledger *ledger = parent->ledger;
    pthread_mutex_lock(&ledger->lock);
    mr_receipt *taken = open_receipt(ledger, frame, page_of(ledger, frame->source, MR_LEDGER_OBJECTS),
                                     &parent->context);
    if (taken)
        taken->parent = mr_receipt_ref(parent);
    pthread_mutex_unlock(&ledger->lock);
    if (!taken)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a receipt");
    *receipt = taken;
    return MR_OK;
}

/* Whether the object must now be delivered, since it does not wait for its frame. With the lock. */
static bool gather(mr_receipt *parent, mr_receipt *object, uint64_t kept) {
    page *account = &object->ledger->pages[object->page];
    if (object->gathered)
        return false;
    object->gathered = true;
    if (object->parent || account->kept >= kept)
        return !object->parent;
    object->next_kept = parent->kept;
    parent->kept = mr_receipt_ref(object);
    account->kept++;
    return false;
}

void mr_receipt_gather(mr_receipt *parent, mr_receipt *object, uint64_t kept) {
    if (!object || !parent || object == parent)
        return;
    pthread_mutex_lock(&object->ledger->lock);
    const bool delivered = gather(parent, object, kept);
    pthread_mutex_unlock(&object->ledger->lock);
    if (delivered)
        mr_receipt_note(object, MR_NOTE_DELIVERED, NULL, NULL);
}

/* ---- frames that came again ------------------------------------------------------------------------------------ */

/* With the lock. Takes a reference; NULL: none is open. */
static mr_receipt *find_former(const mr_ledger *ledger, const mr_receipt *receipt, int period) {
    for (mr_receipt *other = *bucket_of(ledger, &receipt->frame); other; other = other->chain)
        if (other->returned < receipt->returned && (receipt->returned - other->returned) % period == 0 &&
            other->frame.source == receipt->frame.source &&
            mr_identity_compare(&other->frame, &receipt->frame) == 0 && catch_receipt(other))
            return other;
    return NULL;
}

void mr_receipt_await_former(mr_receipt *receipt, int period) {
    for (; receipt; receipt = receipt->parent) {
        mr_ledger *ledger = receipt->ledger;
        pthread_mutex_lock(&ledger->lock);
        mr_receipt *former = receipt->findable && !receipt->awaits ? find_former(ledger, receipt, period) : NULL;
        if (former) {
            receipt->awaits = true;
            receipt->next_awaiting = former->awaiting;
            former->awaiting = mr_receipt_ref(receipt);
        }
        pthread_mutex_unlock(&ledger->lock);
        mr_receipt_unref(&former);
    }
}

/* A frame that must come again must do so whichever of its makers' processes asks. */
static void release_awaiting(mr_receipt *former) {
    mr_receipt *receipt = former->awaiting;
    former->awaiting = NULL;
    while (receipt) {
        mr_receipt *next = receipt->next_awaiting;
        if (former->note == MR_NOTE_DROPPED)
            mr_receipt_note(receipt, MR_NOTE_DROPPED, former->stage, former->reason);
        mr_receipt_unref(&receipt);
        receipt = next;
    }
}

/* ---- objects that were gathered -------------------------------------------------------------------------------- */

/* The frame of these objects has its outcome. */
static void release_kept(mr_receipt *frame) {
    mr_receipt *object = frame->kept;
    frame->kept = NULL;
    while (object) {
        mr_receipt *next = object->next_kept;
        pthread_mutex_lock(&object->ledger->lock);
        object->ledger->pages[object->page].kept--;
        pthread_mutex_unlock(&object->ledger->lock);
        mr_receipt_note(object, frame->note, frame->stage, frame->reason);
        mr_receipt_unref(&object);
        object = next;
    }
}

/* A frame whose objects were delivered is too, and one whose objects must come again must come again. */
static void report_to(mr_receipt *parent, const mr_receipt *object) {
    const mr_note note = object->note;
    if (note == MR_NOTE_DELIVERED && !object->gathered)
        atomic_store_explicit(&parent->delivered_in_part, true, memory_order_relaxed);
    if (note == MR_NOTE_DROPPED && !mr_note_settles(note, object->reason))
        mr_receipt_note(parent, note, object->stage, object->reason);
}

static bool is_done_before(const char *reason) {
    return strcmp(reason, MR_REASON_DONE_BEFORE) == 0;
}

/* Objects of a frame that an earlier run settled may pass once more, to another node and back: they do not count. */
static void note_objects(mr_receipt *frame) {
    if (atomic_load_explicit(&frame->delivered_in_part, memory_order_relaxed) &&
        !(frame->note == MR_NOTE_ABSORBED && is_done_before(frame->reason)))
        mr_receipt_note(frame, MR_NOTE_DELIVERED, NULL, NULL);
}

/* With the lock. */
static void leave(const mr_ledger *ledger, const mr_receipt *receipt) {
    mr_receipt **at = bucket_of(ledger, &receipt->frame);
    while (*at != receipt)
        at = &(*at)->chain;
    *at = receipt->chain;
}

/* ---- outcomes -------------------------------------------------------------------------------------------------- */

/* A drop is final: call it once for each frame that will be counted as dropped. With the lock. */
static void trace_drop(const mr_ledger_tracing *tracing, const mr_receipt *receipt) {
    const mr_trace_about about = {
        .stage = receipt->stage, .source = tracing->sources[receipt->frame.source], .frame = receipt->frame};
    mr_trace_instant(tracing->trace, tracing->track, receipt->reason, mr_trace_now_ns(tracing->trace), &about);
}

/* The note may be relaxed: its writer holds a reference, and dropping that orders the note before the close. */
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
    MR_LOCKED(&receipt->ledger->lock);
    noted = atomic_load_explicit(&receipt->note, memory_order_relaxed);
    /* If a frame was dropped on several paths, the reason that a later run must repeat wins. What was settled by an
     * earlier run counts as that, however far it came. */
    if ((noted == MR_NOTE_DROPPED && !mr_note_settles(note, reason)) ||
        (noted == MR_NOTE_ABSORBED && note == noted && is_done_before(reason))) {
        receipt->stage = stage;
        receipt->reason = reason;
    }
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
}

/* Adds frames to the line for this stage and reason. */
static void enter_line(page *account, mr_outcome outcome, const char *stage, const char *reason, uint64_t frames) {
    for (size_t i = 0; i < account->line_count; i++) {
        mr_ledger_line *line = &account->lines[i];
        if (line->outcome == outcome && strcmp(line->stage, stage) == 0 && strcmp(line->reason, reason) == 0) {
            line->frames += frames;
            return;
        }
    }
    mr_ledger_line *lines = mr_realloc(account->lines, (account->line_count + 1) * sizeof *lines);
    if (!lines)
        return; /* The total still counts the frame; only the breakdown lacks it. */
    account->lines = lines;
    lines[account->line_count++] = (mr_ledger_line){outcome, stage, reason, frames};
}

/* Enters the receipt's outcome for `frames` frames. */
static void enter(page *account, const mr_receipt *receipt, uint64_t frames) {
    switch (atomic_load_explicit(&receipt->note, memory_order_relaxed)) {
    case MR_NOTE_DELIVERED:
        account->delivered += frames;
        break;
    case MR_NOTE_DROPPED:
        account->dropped += frames;
        enter_line(account, MR_OUTCOME_DROPPED, receipt->stage, receipt->reason, frames);
        break;
    case MR_NOTE_ABSORBED:
        account->absorbed += frames;
        enter_line(account, MR_OUTCOME_ABSORBED, receipt->stage, receipt->reason, frames);
        break;
    case MR_NOTE_NONE:
        for (uint64_t i = 0; i < frames; i++, account->unaccounted++)
            if (account->unaccounted < MR_UNSETTLED_FRAMES)
                account->unsettled[account->unaccounted] = receipt->frame;
        break;
    }
}

/* Moves a receipt from the open list to the free list. With the lock. */
static void unlink_receipt(mr_ledger *ledger, mr_receipt *receipt) {
    page *account = &ledger->pages[receipt->page];
    *(receipt->previous ? &receipt->previous->next : &account->first) = receipt->next;
    *(receipt->next ? &receipt->next->previous : &account->last) = receipt->previous;
    receipt->next = ledger->free;
    ledger->free = receipt;
}

/* With the lock. Objects that were gathered are entered with their frame. */
static void enter_all(mr_ledger *ledger, const mr_receipt *receipt) {
    if (receipt->gathered && receipt->parent && receipt->note != MR_NOTE_DROPPED)
        receipt->parent->gathered_count++;
    else
        enter(&ledger->pages[receipt->page], receipt, 1);
    if (receipt->gathered_count)
        enter(&ledger->pages[page_of(ledger, receipt->frame.source, MR_LEDGER_OBJECTS)], receipt,
              receipt->gathered_count);
}

/* With the lock. */
static void end_span(const mr_ledger *ledger, const mr_receipt *receipt) {
    static const char *const fates[] = {[MR_NOTE_ABSORBED] = "absorbed", [MR_NOTE_DELIVERED] = "delivered",
                                        [MR_NOTE_DROPPED] = "dropped"};
    const mr_span span = {
        .own = receipt->context, .parent = receipt->parent_span, .fate = fates[receipt->note],
        .kind = receipt->frame.sub ? MR_SPAN_OBJECT : receipt->parent_span ? MR_SPAN_ARRIVED : MR_SPAN_FRAME,
        .stage = receipt->stage, .reason = receipt->reason, .frame = receipt->frame, .frames = 1,
        .begin_ns = receipt->opened_ns, .end_ns = mr_spans_now_ns(ledger->spans)};
    mr_spans_add(ledger->spans, &span);
}

static void close_receipt(mr_receipt *receipt) {
    mr_ledger *ledger = receipt->ledger;
    note_objects(receipt);
    release_kept(receipt);
    release_awaiting(receipt);
    if (receipt->parent)
        report_to(receipt->parent, receipt);
    pthread_mutex_lock(&ledger->lock);
    mr_receipt closed = *receipt;
    enter_all(ledger, receipt);
    if (ledger->spans && receipt->context.span)
        end_span(ledger, receipt);
    if (follows(ledger, receipt->page) && !ledger->frozen && mr_note_settles(receipt->note, receipt->reason))
        mr_reach_close(&ledger->pages[receipt->page].reach, receipt->number);
    if (receipt->findable)
        leave(ledger, receipt);
    unlink_receipt(ledger, receipt);
    bool last = --ledger->open == 0 && ledger->released;
    page *account = &ledger->pages[closed.page];
    void (*emptied)(void *) = account->first ? NULL : account->emptied;
    void *context = account->context;
    account->emptied = emptied ? NULL : account->emptied;
    if (emptied)
        emptied(context);
    pthread_mutex_unlock(&ledger->lock);
    if (last)
        destroy(ledger);
    for (mr_receipt_watcher *watcher = closed.watchers, *next; watcher; watcher = next) {
        next = watcher->next;
        watcher->closed(watcher, closed.note, closed.stage, closed.reason);
    }
    mr_receipt_unref(&closed.parent);
}

bool mr_ledger_await_empty(mr_ledger *ledger, uint32_t source, void (*emptied)(void *context), void *context) {
    page *account = &ledger->pages[source];
    MR_LOCKED(&ledger->lock);
    bool empty = !account->first;
    account->emptied = empty ? NULL : emptied;
    account->context = context;
    return empty;
}

void mr_ledger_clear(mr_ledger *ledger, uint32_t source) {
    static const mr_ledger_page here[] = {MR_LEDGER_FRAMES, MR_LEDGER_OBJECTS};
    MR_LOCKED(&ledger->lock);
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        page *account = &ledger->pages[page_of(ledger, source, here[i])];
        mr_free(account->lines);
        mr_reach_fini(&account->reach);
        *account = (page){0};
    }
}

/* Copies the lines only if all fit into `room`. With the lock. */
static void copy_account(const page *from, size_t room, mr_ledger_account *to) {
    to->in = from->in;
    to->delivered = from->delivered;
    to->dropped = from->dropped;
    to->absorbed = from->absorbed;
    to->unaccounted = from->unaccounted;
    to->unsettled_count = from->unaccounted < MR_UNSETTLED_FRAMES ? from->unaccounted : MR_UNSETTLED_FRAMES;
    memcpy(to->unsettled, from->unsettled, to->unsettled_count * sizeof *to->unsettled);
    for (const mr_receipt *at = from->first; at && to->unsettled_count < MR_UNSETTLED_FRAMES; at = at->next)
        to->unsettled[to->unsettled_count++] = at->frame;
    to->line_count = from->line_count <= room ? from->line_count : 0;
    if (to->line_count)
        memcpy(to->lines, from->lines, to->line_count * sizeof *to->lines);
}

void mr_ledger_read(mr_ledger *ledger, uint32_t source, mr_ledger_page which, mr_ledger_account *account) {
    const page *from = &ledger->pages[page_of(ledger, source, which)];
    size_t room = 0, lines = 0;
    *account = (mr_ledger_account){0};
    do {
        mr_free(account->lines);
        account->lines = lines ? mr_alloc(lines * sizeof *account->lines) : NULL;
        room = account->lines ? lines : 0;
        pthread_mutex_lock(&ledger->lock);
        copy_account(from, room, account);
        bool short_of_memory = lines && !room;
        lines = short_of_memory ? 0 : from->line_count;
        pthread_mutex_unlock(&ledger->lock);
    } while (lines > room);
}
