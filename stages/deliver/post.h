/* What a service gets from a frame: an id, a topic, a JSON text and a picture. webhook and mqtt share it.
 *
 * The text is the record as jsonl writes it, with the id as its first value, or a template with the frame's values. All
 * parts form one record for mr_delivery_put; mr_post_at reads it back. One thread at a time uses a writer. */
#pragma once

#include "stages/deliver/delivery.h"
#include "stages/sink/record_json.h"
#include "stages/sink/still_encoder.h"

typedef struct mr_post_choices {
    const char *template; /* NULL: the record */
    const char *topic;    /* as topic.h; NULL: none */
    bool picture;         /* add frames' pictures, as JPEG files */
    bool labels;          /* add the labels of a frame's objects */
} mr_post_choices;

typedef struct mr_post_writer {
    mr_record record;
    mr_record part; /* for texts in templates */
    mr_still_encoder encoder;
    char *data;     /* the post */
    size_t bytes, room;
    bool failed;
} mr_post_writer;

enum { MR_POST_MOST_LABELS = 64, MR_POST_MOST_TOPIC = 4096 };
enum { MR_POST_CLASSES = 1, MR_POST_OBJECTS = 2 };

/* The lengths of the parts, which follow in this order. */
typedef struct mr_post_head {
    uint32_t topic_bytes; /* with the NUL */
    uint32_t id_bytes, text_bytes, picture_bytes, labels_bytes;
    uint32_t kinds;       /* MR_POST_*: the frame has such results */
} mr_post_head;

typedef struct mr_post {
    mr_post_head head;
    const char *topic, *id, *text, *picture;
    const char *labels; /* up to MR_POST_MOST_LABELS, each once and with its NUL */
} mr_post;

/* `quality`: of pictures, 1 to 100. */
int mr_post_writer_open(mr_post_writer *writer, int quality);
/* Makes the frame's post in `data`. MR_ERROR_MEMORY, MR_ERROR_DATA. */
int mr_post_make(mr_post_writer *writer, const mr_stage *self, const mr_frame *frame, const mr_post_choices *choices);
/* All zero is closed. */
void mr_post_writer_close(mr_post_writer *writer);

/* The part that webhook and mqtt share. A stage's options begin with mr_delivery_options, and its state with this; open
 * sets the choices, and calls mr_delivery_open unless the run only measures. */
typedef struct mr_post_sink {
    mr_post_writer writer;
    mr_post_choices choices;
    mr_delivery *delivery; /* NULL: the run only measures */
} mr_post_sink;

/* After the checks of the stage's own options. Refuses words in the template's braces that no frame has a value for,
 * and inputs without pictures if pictures are sent. `template` may be NULL. */
int mr_post_sink_negotiate(mr_negotiation *negotiation, const char *template, bool picture);
int mr_post_sink_process(mr_stage *self, mr_io *io);
int mr_post_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
void mr_post_sink_close(mr_stage *self);

#define MR_POST_SINK_TYPE                                                                                              \
    .entry = MR_ENTRY_SHARED, .process = mr_post_sink_process, .flush = mr_post_sink_flush,                            \
    .close = mr_post_sink_close, .resumes = true

/* A post in a batch; it lives as long as the batch. */
mr_post mr_post_at(const mr_batch *batch, size_t index);
