#include "stages/deliver/post.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "stages/deliver/topic.h"
#include "stages/sink/number_text.h"
#include "stages/sink/output.h"

enum { ID_BYTES = 1536 };

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void add(mr_post_writer *at, const void *bytes, size_t count) {
    at->failed = at->failed || !mr_append_bytes((void **)&at->data, &at->room, &at->bytes, bytes, count);
}

/* The same for repeated deliveries, also by a process that continues the run. Only characters that may be in a header
 * stay. */
static size_t make_id(const mr_stage *self, const mr_frame *frame, char id[ID_BYTES]) {
    const mr_identity *of = &frame->identity;
    char plain[ID_BYTES / 3];
    size_t bytes = 0;
    snprintf(plain, sizeof plain, "%s.%u.%llu.%u.%s.%s", mr_stage_run(self), of->epoch,
             (unsigned long long)of->seq, of->sub, self->id, mr_stage_source_id(self, of->source));
    for (const char *next = plain; *next; next++)
        bytes += (size_t)snprintf(id + bytes, ID_BYTES - bytes,
                                  isalnum((unsigned char)*next) || strchr("._-", *next) ? "%c" : "%%%02x",
                                  (unsigned char)*next);
    return bytes;
}

/* ---- templates --------------------------------------------------------------------------------------------------- */

/* The values for a template. Texts are written as in JSON, without the quotes around them. */
typedef struct values {
    const char *id, *pipeline, *source, *pts, *captured, *class;
    char numbers[3][24], score[MR_NUMBER_TEXT];
} values;

static const char *const words[] = {"id",  "pipeline", "source", "epoch", "seq",    "sub",
                                    "pts", "captured", "class",  "score", "record", NULL};

/* Of those that may be missing. The others are texts, in quotes, which stay empty. */
static bool is_number(const char *word) {
    return strcmp(word, "pts") == 0 || strcmp(word, "score") == 0;
}

static const char *value_of(const values *all, size_t word) {
    const char *const texts[] = {all->id,         all->pipeline, all->source,   all->numbers[0], all->numbers[1],
                                 all->numbers[2], all->pts,      all->captured, all->class,      all->score};
    return word < sizeof texts / sizeof *texts ? texts[word] : NULL;
}

/* The length of a word in braces at the beginning, and its number; 0: there is none. *number is -1 if it is unknown. */
static size_t find_word(const char *text, int *number) {
    const size_t length = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    *number = -1;
    if (!length || text[length + 1] != '}')
        return 0;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == length && strncmp(words[i], text + 1, length) == 0)
            *number = i;
    return length + 2;
}

static void add_escaped(mr_post_writer *at, const char *text) {
    const unsigned char *made = NULL;
    size_t bytes = 0;
    yajl_gen_clear(at->part.json);
    yajl_gen_reset(at->part.json, "");
    mr_json_text(at->part.json, NULL, text);
    yajl_gen_get_buf(at->part.json, &made, &bytes);
    add(at, made + 1, bytes - 2);
}

/* The best class, or the class of the best object. */
static void find_class(const mr_frame *frame, values *to) {
    const mr_result *classes = mr_frame_result(frame, mr_kind_classes(), NULL);
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    const mr_object *object = objects && objects->count ? objects->data : NULL;
    if (classes && classes->count) {
        to->class = classes->classes[0].label;
        mr_float_text(to->score, classes->classes[0].score);
    } else if (object) {
        to->class = object->label;
        mr_float_text(to->score, object->score);
    }
}

static void expand(mr_post_writer *at, const mr_stage *self, const mr_frame *frame, const char *template,
                   const char *id, const char *record, size_t record_bytes) {
    char pts[MR_NUMBER_TEXT], captured[MR_VALUE_TEXT] = "";
    const mr_field date = {.name = "captured", .type = MR_FIELD_DATE};
    values all = {.id = id, .pipeline = mr_stage_pipeline(self), .pts = pts, .captured = captured,
                  .source = mr_stage_source_id(self, frame->identity.source)};
    int number;
    mr_seconds_text(pts, frame->pts_ns);
    mr_value_text(captured, &date, &frame->captured_ns);
    snprintf(all.numbers[0], sizeof all.numbers[0], "%u", frame->identity.epoch);
    snprintf(all.numbers[1], sizeof all.numbers[1], "%llu", (unsigned long long)frame->identity.seq);
    snprintf(all.numbers[2], sizeof all.numbers[2], "%u", frame->identity.sub);
    find_class(frame, &all);
    for (size_t length; *template; template += length) {
        length = find_word(template, &number);
        const char *value = length && number >= 0 ? value_of(&all, (size_t)number) : NULL;
        if (value && !*value && is_number(words[number]))
            add(at, "null", 4);
        else if (value)
            add_escaped(at, value);
        else if (length && number >= 0 && strcmp(words[number], "record") == 0)
            add(at, record, record_bytes);
        else if (!length)
            add(at, template, length = 1);
    }
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int check_template(mr_negotiation *n, const char *template) {
    int number;
    for (size_t length; template && *template; template += length ? length : 1) {
        length = find_word(template, &number);
        if (length && number < 0)
            return mr_refuse(n, "template", "there is no %.*s; there are {id}, {pipeline}, {source}, {epoch}, {seq}, "
                             "{sub}, {pts}, {captured}, {class}, {score} and {record}", (int)length, template);
    }
    return MR_OK;
}

static int check_picture(mr_negotiation *n) {
    const mr_payload payload = n->inputs[0].set.payload;
    if (payload != MR_PAYLOAD_PICTURE && payload != MR_PAYLOAD_ANY)
        return mr_refuse(n, "picture", "%s gives no pictures: join them, as in {type: join, join: {picture: decode, "
                         "classes: %s}}", n->inputs[0].from, n->inputs[0].from);
    n->shows = MR_IN_SET(MR_PAYLOAD_PICTURE);
    int status = mr_still_encoder_check(MR_STILL_JPEG);
    return status ? mr_refuse_status(n, status, "picture", "%s", mr_message()) : MR_OK;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

int mr_post_writer_open(mr_post_writer *at, int quality) {
    at->encoder.choices = (mr_still_choices){.kind = MR_STILL_JPEG, .quality = quality, .turn = true};
    int status = mr_record_open(&at->record);
    return status ? status : mr_record_open(&at->part);
}

void mr_post_writer_close(mr_post_writer *at) {
    mr_still_encoder_close(&at->encoder);
    mr_record_close(&at->record);
    mr_record_close(&at->part);
    mr_free(at->data);
    *at = (mr_post_writer){0};
}

static uint32_t add_topic(mr_post_writer *at, const mr_stage *self, const mr_frame *frame, const char *template) {
    char topic[MR_POST_MOST_TOPIC];
    values found = {.class = NULL};
    if (!template)
        return 0;
    find_class(frame, &found);
    const mr_topic_values of = {.pipeline = mr_stage_pipeline(self), .stage = self->id,
                                .source = mr_stage_source_id(self, frame->identity.source), .class = found.class};
    mr_topic_make(topic, sizeof topic, template, &of);
    add(at, topic, strlen(topic) + 1);
    return (uint32_t)strlen(topic) + 1;
}

/* A record with its id as the first value, or what the template makes of both. */
static uint32_t add_text(mr_post_writer *at, const mr_stage *self, const mr_frame *frame, const char *template,
                         const char *id) {
    const mr_recorded recorded = {.frame = frame, .source = mr_stage_source_id(self, frame->identity.source)};
    const size_t before = at->bytes;
    size_t bytes;
    const char *text = mr_record_make(&at->record, &recorded, &bytes);
    if (template) {
        expand(at, self, frame, template, id, text, bytes - 1);
    } else {
        add(at, "{\"delivery\":\"", 13);
        add(at, id, strlen(id));
        add(at, "\",", 2);
        add(at, text + 1, bytes - 2);
    }
    return (uint32_t)(at->bytes - before);
}

static bool has_label(const char *labels, size_t bytes, const char *label) {
    for (size_t at = 0; at < bytes; at += strlen(labels + at) + 1)
        if (strcmp(labels + at, label) == 0)
            return true;
    return false;
}

static uint32_t add_labels(mr_post_writer *at, const mr_frame *frame) {
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    const size_t before = at->bytes;
    size_t labels = 0;
    for (size_t i = 0; objects && i < objects->count && labels < MR_POST_MOST_LABELS && !at->failed; i++) {
        const char *label = ((const mr_object *)objects->data)[i].label;
        if (!label || has_label(at->data + before, at->bytes - before, label))
            continue;
        add(at, label, strlen(label) + 1);
        labels++;
    }
    return (uint32_t)(at->bytes - before);
}

int mr_post_make(mr_post_writer *at, const mr_stage *self, const mr_frame *frame, const mr_post_choices *choices) {
    mr_post_head head = {0};
    char id[ID_BYTES];
    uint8_t *picture = NULL;
    size_t picture_bytes = 0;
    int status = choices->picture && frame->format.payload == MR_PAYLOAD_PICTURE
                     ? mr_still_encode(&at->encoder, frame, &picture, &picture_bytes) : MR_OK;
    if (status)
        return status;
    at->bytes = 0;
    at->failed = false;
    add(at, &head, sizeof head);
    head.topic_bytes = add_topic(at, self, frame, choices->topic);
    head.id_bytes = (uint32_t)make_id(self, frame, id);
    add(at, id, head.id_bytes);
    head.text_bytes = add_text(at, self, frame, choices->template, id);
    head.picture_bytes = (uint32_t)picture_bytes;
    add(at, picture, picture_bytes);
    mr_free(picture);
    head.labels_bytes = choices->labels ? add_labels(at, frame) : 0;
    head.kinds = (mr_frame_result(frame, mr_kind_classes(), NULL) ? MR_POST_CLASSES : 0U) |
                 (mr_frame_result(frame, mr_kind_objects(), NULL) ? MR_POST_OBJECTS : 0U);
    if (at->failed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a record");
    memcpy(at->data, &head, sizeof head);
    return MR_OK;
}

mr_post mr_post_at(const mr_batch *batch, size_t index) {
    const char *at = batch->data + batch->items[index].at;
    mr_post found;
    memcpy(&found.head, at, sizeof found.head);
    found.topic = at + sizeof found.head;
    found.id = found.topic + found.head.topic_bytes;
    found.text = found.id + found.head.id_bytes;
    found.picture = found.text + found.head.text_bytes;
    found.labels = found.picture + found.head.picture_bytes;
    return found;
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

int mr_post_sink_negotiate(mr_negotiation *n, const char *template, bool picture) {
    n->shows = 0;
    n->blind = !picture;
    int status = check_template(n, template);
    if (!status && picture)
        status = check_picture(n);
    if (!status)
        status = mr_record_check(n, false, false);
    return status ? status : mr_delivery_negotiate(n);
}

int mr_post_sink_process(mr_stage *self, mr_io *io) {
    mr_post_sink *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    if (at->delivery && !mr_delivery_run(self))
        return mr_io_refuse(io, MR_ERROR_CONFIG);
    int status = mr_post_make(&at->writer, self, frame, &at->choices);
    return status || !at->delivery ? status
                                   : mr_delivery_put(at->delivery, io, frame, at->writer.data, at->writer.bytes);
}

int mr_post_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    mr_post_sink *at = self->state;
    return at->delivery ? mr_delivery_flush(at->delivery, io, source) : MR_DONE;
}

void mr_post_sink_close(mr_stage *self) {
    mr_post_sink *at = self->state;
    mr_delivery_close(&at->delivery);
    mr_post_writer_close(&at->writer);
}
