/* What the files of the giving side of a cut share: cut_out_entry.c, which frames come into, and cut_out.c, which has
 * the carrier's duty and opens and closes it all. */
#ifndef MILLRACE_TRANSPORT_CUT_OUT_H
#define MILLRACE_TRANSPORT_CUT_OUT_H

#include "engine/base/clock.h"
#include "engine/transport/cut/cut_end.h"
#include "engine/transport/cut/cut_items.h"
#include "engine/transport/cut/cut_stages.h"

typedef struct cut_out {
    mr_stage *self;
    const mr_cut *cut;
    mr_instance *instance;
    mr_carrier *carrier;
    size_t ends_left;        /* the entry's: sources that have not ended */
    bool gathered;           /* the entry's: it has given what the carrier is to see to */
    mr_task turn;            /* run by a worker that polls when something comes through shared memory */

    pthread_mutex_t lock;    /* guards what follows, up to the blank line */
    bool locking;            /* it was made */
    mr_cut_items offered;    /* given over by the entry */
    uint64_t frames, bytes;  /* given over and not settled */
    uint32_t *of_source;     /* of these frames, those of each source; NULL: sources have no share of their own */
    bool parked;             /* the entry waits for room, or for the end */
    bool deserted;           /* of a live cut: nobody takes anything */
    bool ending;             /* the last end was given over */
    bool finished;           /* all that was given over is settled, and the end known over there, or given up */
    bool stopping, closing;  /* the run is being stopped; the stage is being closed */

    mr_cut_items taken;      /* this and what follows is had by whoever has the carrier's duty */
    size_t next;             /* of `taken`, to be offered to the session */
    mr_sender *sender;
    mr_wire_writer *writer;
    mr_wire_reader *reader;
    mr_names_share shares[MR_CUT_MOST_PEERS]; /* of its words, what each peer has added */
    mr_cut_lender *lender;   /* NULL: nothing is shared */
    mr_cut_teller teller;
    int64_t stop_ns, due_ns; /* how long it goes on when asked to stop; until when, 0: not asked */
    int64_t look_ns;         /* when it is asked next whether the taking node has ended */
    mr_run_state run_state;
    const char *abandoned;   /* why nothing is given any more; NULL: it is */
    bool closed;
    uint64_t settled_frames, settled_bytes; /* that the entry is to be told of */
} cut_out;

static inline int64_t cut_out_now(void) {
    return mr_clock_now_ns(mr_clock_real());
}

static const char CUT_NO_TAKER[] = "no taker";

/* As mr_stage_type has them. */
int cut_out_process(mr_stage *self, mr_io *io);
void cut_out_stop(mr_stage *self);

#endif
