/* Messages of the protocol of cuts, as structs that a session sends and receives (session.h), and that wire.h
 * serializes.
 *
 * A message borrows everything it points to: from the session that sends it, until the session's next call; from the
 * wire reader, until it reads the next message. Frames have references of their own, see mr_cut_item. */
#pragma once

#include <stdbool.h>

#include "engine/data/receipt.h"
#include "millrace/stage.h"

/* Versions of the protocol that are spoken here. */
enum { MR_PROTOCOL_OLDEST = 3, MR_PROTOCOL_NEWEST = 3 };
enum { MR_DIGEST_BYTES = 32 };

typedef enum mr_cut_kind {
    MR_CUT_FRAME,
    MR_CUT_GAP,          /* the frame `identity` will not come, for `reason` */
    MR_CUT_END,           /* nothing more comes of source `identity.source` */
    MR_CUT_DISCONTINUITY, /* the next frame of that source does not continue the previous one */
    MR_CUT_FORMAT         /* the next frames of that source have `format` */
} mr_cut_kind;

/* A frame or a mark in a cut. Whoever owns a frame's item owns one reference to the frame. The session sees the frame
 * as an opaque handle. */
typedef struct mr_cut_item {
    mr_cut_kind kind;
    mr_identity identity;
    mr_frame *frame;    /* FRAME */
    uint64_t bytes;     /* FRAME: payload bytes, as mr_wire_frame_bytes counts */
    uint64_t envelope_bytes; /* FRAME, at the sender: as mr_wire_elements_bytes counts. Limits messages, not credit */
    mr_span_context context; /* FRAME: its span at the sender, if it is followed */
    bool packet, key;   /* FRAME: a compressed packet; one that decoding can begin with */
    const char *reason; /* GAP and END; lives as long as the pipeline; may be NULL */
    const mr_format *format; /* FORMAT; lives as long as the item, or the message that was read */
    /* the session's */
    uint64_t position;  /* in the cut, from 1, as the sender counts; 0: END */
    uint64_t ticket;    /* at a receiver: the handle for mr_receiver_take and mr_receiver_settle */
    bool fresh;         /* at a receiver: to be pushed into the graph; otherwise a repetition */
} mr_cut_item;

/* The outcome of `count` items from position `first` on. NONE: the receiver holds them, and they are not settled yet.
 */
typedef struct mr_settled {
    uint64_t first, count;
    mr_note outcome;
    const char *stage, *reason; /* for absorbed and dropped; live as long as the pipeline */
} mr_settled;

typedef enum mr_reject_reason {
    MR_REJECT_UNKNOWN,
    MR_REJECT_STALE,     /* no such session: say hello again */
    MR_REJECT_VERSION,
    MR_REJECT_DIGEST,
    MR_REJECT_CUT,
    MR_REJECT_FORMATS,
    MR_REJECT_FULL,
    MR_REJECT_REPLACED,
    MR_REJECT_MALFORMED,
    MR_REJECT_COUNT
} mr_reject_reason;

typedef enum mr_message_kind {
    MR_MESSAGE_HELLO = 1, /* the numbers do not go over the wire */
    MR_MESSAGE_WELCOME,
    MR_MESSAGE_REJECT,
    MR_MESSAGE_ITEMS,
    MR_MESSAGE_REPORT,
    MR_MESSAGE_BEAT,
    MR_MESSAGE_BYE
} mr_message_kind;

/* The fields are those of the same names in proto/millrace.proto. Strings are never NULL, except in items and outcomes.
 */
typedef struct mr_cut_message {
    mr_message_kind kind;
    uint32_t version;
    uint64_t session, number;
    union {
        struct {
            uint32_t oldest_version, newest_version;
            const char *name;
            uint64_t incarnation, attempt;
            uint8_t digest[MR_DIGEST_BYTES];
            const char *cut, *formats, *memory;
            uint64_t refused; /* the session that ended because the sender sent a malformed message; 0: none */
            const uint32_t *kinds;
            size_t kind_count;
        } hello;
        struct {
            uint32_t version;
            uint64_t attempt, incarnation, run;
            int64_t beat_ns;
            bool live;
            const char *memory;
            mr_run_state run_state;
        } welcome;
        struct {
            mr_reject_reason reason;
            uint64_t attempt;
            const char *text;
        } reject;
        struct {
            mr_cut_item *item;
            size_t count;
            uint64_t made_by;
        } items;
        struct {
            uint64_t granted_frames, granted_bytes, progress;
            const mr_settled *settled;
            size_t settled_count;
            const uint32_t *ended;
            size_t ended_count;
            bool withdrawn;
        } report;
        struct {
            uint64_t progress;
            mr_run_state run_state;
        } beat;
        struct {
            const char *text;
        } bye;
    };
} mr_cut_message;
