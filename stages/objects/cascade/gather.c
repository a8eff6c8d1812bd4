/* gather: puts results from objects' pictures onto the objects.
 *
 * The engine calls first with the pictures of a frame's objects, then with the frame (MR_CASCADE_GATHER). Results are
 * kept until then, and forgotten if the frame was lost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/text.h"
#include "stages/list.h"
#include "stages/objects/found.h"
#include "stages/objects/cascade/ballot.h"
#include "stages/objects/cascade/facing.h"
#include "stages/objects/cascade/merge.h"

enum { FRAMES, CROPS };
/* Objects of all pictures of a frame. The time to merge them grows with the square. */
enum { MOST_CHILDREN = 10000 };
/* The tensor of features: its name, and the most vectors and bytes of a frame. */
static const char FEATURES[] = "features";
enum { MOST_VECTORS = 1000, MOST_FEATURE_BYTES = 16 << 20 };

typedef struct vote_options {
    bool given;
    int64_t over_ns;
} vote_options;

typedef struct merge_options {
    bool given;
    double iou, inside;
} merge_options;

typedef struct upside_options {
    bool given;
    const char *class;
    double score, others;
} upside_options;

typedef struct options {
    vote_options vote;
    merge_options merge;
    upside_options upside_down;
    bool features;
    const char *tensor;
} options;

/* Part of the bytes that are kept. */
typedef struct kept {
    size_t at, bytes;
} kept;

/* A class or a text that was found in the picture of an object. */
typedef struct answer {
    int64_t number; /* the object's */
    mr_object_attribute attribute;
    kept text;
} answer;

/* An object that was found in the picture of another. */
typedef struct child {
    mr_object object;
    kept quad, points, mask;
} child;

/* Of one source. */
typedef struct state {
    mr_identity frame; /* to which the rest belongs */
    answer *answers;
    size_t answer_count, answer_room;
    child *children;
    size_t child_count, child_room;
    mr_facing facing;  /* with upside_down: the frame's lines */
    mr_object *parts;  /* with merge: places of tiles */
    size_t part_count, part_room;
    uint8_t *bytes;
    size_t byte_count, byte_room;
    int64_t *look;     /* with features: the numbers of objects that have a vector */
    size_t look_count, look_room;
    float *vectors;    /* in the same order */
    size_t length, vector_room; /* length: numbers in each vector; 0: none has come yet */
    uint64_t odd;      /* vectors that are not numbers */
    bool came;         /* a picture did */
    bool unsearched;   /* a picture came in which a detector has not searched, as with `every` */
    bool cut;          /* not all that was found is kept, or pictures were lost that would have been searched */
    mr_object_attribute *attributes; /* of the object at hand */
    size_t attribute_count, attribute_room;
    mr_ballot *votes;   /* NULL: without vote */
} state;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Whether a stage may have searched the pictures for objects. crop's own result is the oldest. */
static bool may_search(const mr_planned_input *input) {
    bool searches = input->more_results;
    for (const mr_planned_result *one = input->results; one && !searches; one = one->next)
        searches = one->kind == mr_kind_objects() && one->next;
    return searches;
}

/* Whether pictures of objects can have something for the objects. */
static bool may_find(const mr_negotiation *n) {
    return may_search(&n->inputs[CROPS]) || mr_planned_may_have(n, CROPS, mr_kind_classes()) ||
           mr_planned_may_have(n, CROPS, mr_kind_text());
}

/* The most rows of the tensor of features. */
static int64_t most_rows(const mr_negotiation *n, int64_t length) {
    const mr_planned_result *one = n->inputs[FRAMES].results;
    while (one && one->kind != mr_kind_objects())
        one = one->next;
    const int64_t fit = length ? MOST_FEATURE_BYTES / (int64_t)sizeof(float) / length : 1;
    const int64_t found = one && !may_search(&n->inputs[CROPS]) ? (int64_t)one->elements : 0;
    const int64_t most = found && found < MOST_VECTORS ? found : MOST_VECTORS;
    return fit && fit < most ? fit : most;
}

/* With features: a tensor on each frame, a row for each object in the order of the result. */
static int promise_features(mr_negotiation *n) {
    const options *o = n->options;
    const mr_planned_input *crops = &n->inputs[CROPS];
    mr_format vector = {0};
    char text[MR_FORMAT_SET_TEXT];
    const mr_planned_finding of = mr_planned_find_vector(crops, o->tensor, &vector);
    if (of == MR_PLANNED_NONE && o->tensor)
        return mr_refuse(n, "tensor", "no vector called \"%s\" is among the results that come from %s", o->tensor,
                         crops->from);
    if (of == MR_PLANNED_NONE)
        return mr_refuse(n, "features", "%s gives a %s for each object, and no vector; let features, infer, hog or "
                         "histogram look at the pictures", crops->from,
                         mr_format_set_print(&crops->set, text, sizeof text));
    if (of == MR_PLANNED_FOUND && vector.dtype && vector.dtype != MR_DTYPE_F32)
        return mr_refuse(n, o->tensor ? "tensor" : "features", "%s gives a %s, but features are f32", crops->from,
                         mr_format_set_print(&crops->set, text, sizeof text));
    const int64_t length = of == MR_PLANNED_FOUND ? (int64_t)mr_vector_length(&vector) : 0;
    const mr_format rows = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, (const int64_t[]){0, length});
    const int64_t most = most_rows(n, length);
    mr_format_set set = mr_format_set_of(&rows);
    set.dims[0] = (mr_bounds){1, most};
    int status = mr_promise_result(n, 0, mr_kind_tensor(), FEATURES, &set);
    if (!status)
        mr_promise_items(n, 0, length ? (uint64_t)(most * length) * sizeof(float) : MOST_FEATURE_BYTES);
    return status;
}

/* The number of classes of each object, if its pictures have nothing else; -1: they may. */
static int only_classes(const mr_planned_input *crops) {
    int count = 0;
    for (const mr_planned_result *one = crops->results; one; one = one->next) {
        if (one->kind == mr_kind_text())
            return -1;
        count += one->kind == mr_kind_classes();
    }
    return may_search(crops) ? -1 : count;
}

/* Bounds what each object gets: all attributes that it had, classes, and with upside_down corners. */
static void promise_items(mr_negotiation *n) {
    const options *o = n->options;
    const int classes = only_classes(&n->inputs[CROPS]);
    const mr_planned_result *objects = n->inputs[FRAMES].results;
    while (objects && objects->kind != mr_kind_objects())
        objects = objects->next;
    if (!objects || !objects->elements || classes < 0 || o->vote.given || o->merge.given)
        return;
    const uint64_t each = mr_items_bytes((size_t)classes, sizeof(mr_object_attribute)) +
                          (o->upside_down.given ? mr_items_bytes(8, sizeof(float)) : 0);
    mr_promise_items(n, 0, 2 * objects->items_bytes + objects->elements * each);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    n->blind = !o->features;
    if (o->merge.given && o->features)
        return mr_refuse(n, "merge", "merge is for tiles, and features for pictures of objects: write one of them");
    if (o->tensor && !o->features)
        return mr_refuse(n, "tensor", "tensor names the vector for features: write features: true, or leave it out");
    if (o->merge.given && o->vote.given)
        return mr_refuse(n, "merge", "merge is for tiles, and vote for pictures of objects: write one of them");
    if (o->merge.given && o->upside_down.given)
        return mr_refuse(n, "merge", "merge is for tiles, and upside_down for pictures of objects: write one of them");
    if (o->upside_down.given && !mr_planned_may_have(n, CROPS, mr_kind_classes()))
        return mr_refuse(n, "upside_down", "%s gives no classes, which say what is upside down: let classify look at "
                         "the pictures", n->inputs[CROPS].from);
    if (!o->merge.given && !mr_planned_may_have(n, FRAMES, mr_kind_objects()))
        return mr_refuse(n, NULL, "the frames from %s have no objects: name the stage that gives crop its frames, or "
                         "one after it", n->inputs[FRAMES].from);
    if (!may_find(n) && !o->features)
        return mr_refuse(n, NULL, "no stage gave the pictures from %s classes, text or objects that could be put onto "
                         "objects: let classify, ctc or another detect look at them first, or write features: true "
                         "to give vectors to track", n->inputs[CROPS].from);
    if (o->vote.given && o->vote.over_ns <= 0)
        return mr_refuse(n, "vote", "vote needs the time over which answers count: {over: 2s}");
    if (o->vote.given && !mr_may_have_tracks(&n->inputs[FRAMES]))
        return mr_refuse(n, "vote", "%s gives no objects with tracks, whose answers could be counted: put track before "
                         "crop", n->inputs[FRAMES].from);
    n->outputs[0].follows = n->outputs[0].shares = FRAMES;
    int status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
    if (!status)
        promise_items(n);
    return status || !o->features ? status : promise_features(n);
}

/* ---- keeping results --------------------------------------------------------------------------------------------- */

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for results of objects");
}

static int keep(state *s, const void *data, size_t bytes, kept *to) {
    s->cut |= data && bytes > MR_MOST_ITEMS_BYTES - s->byte_count;
    *to = (kept){s->byte_count, data && bytes <= MR_MOST_ITEMS_BYTES - s->byte_count ? bytes : 0};
    while (s->byte_room - s->byte_count < to->bytes)
        if (!mr_grow((void **)&s->bytes, s->byte_room, &s->byte_room, 1))
            return no_memory();
    if (to->bytes)
        memcpy(s->bytes + to->at, data, to->bytes);
    s->byte_count += to->bytes;
    return MR_OK;
}

static int keep_items(state *s, const mr_result *from, mr_items items, size_t each, kept *to) {
    return keep(s, mr_result_items(from, items), items.count * each, to);
}

static int keep_answer(state *s, const answer *found) {
    s->cut |= s->answer_count == MR_MOST_OBJECTS;
    if (s->answer_count == MR_MOST_OBJECTS)
        return MR_OK;
    if (!mr_grow((void **)&s->answers, s->answer_count, &s->answer_room, sizeof *s->answers))
        return no_memory();
    s->answers[s->answer_count++] = *found;
    return MR_OK;
}

/* The best class. */
static int keep_class(state *s, const mr_result *from, int64_t number) {
    const mr_class *best = from->classes;
    if (!from->count)
        return MR_OK;
    return keep_answer(s, &(answer){number, {from->stage, best->index, best->score, best->label, {0}}, {0}});
}

static int keep_texts(state *s, const mr_result *from, int64_t number) {
    const mr_text *texts = from->data;
    int status = MR_OK;
    for (size_t i = 0; i < from->count && !status; i++) {
        answer found = {number, {.stage = from->stage, .score = texts[i].score}, {0}};
        status = keep_items(s, from, texts[i].text, 1, &found.text);
        if (!status && found.text.bytes)
            status = keep_answer(s, &found);
    }
    return status;
}

/* A frame has at most MOST_CHILDREN. */
static int keep_child(state *s, const mr_result *from, const mr_object *object, int64_t number) {
    s->cut |= s->child_count == MOST_CHILDREN;
    if (s->child_count == MOST_CHILDREN)
        return MR_OK;
    if (!mr_grow((void **)&s->children, s->child_count, &s->child_room, sizeof *s->children))
        return no_memory();
    child *new = &s->children[s->child_count];
    *new = (child){.object = {.left = object->left, .top = object->top, .right = object->right,
                              .bottom = object->bottom, .score = object->score, .index = object->index,
                              .label = object->label, .parent = number, .mask_width = object->mask_width,
                              .mask_height = object->mask_height}};
    int status = keep_items(s, from, object->quad, sizeof(float), &new->quad);
    if (!status)
        status = keep_items(s, from, object->points, sizeof(float), &new->points);
    if (!status)
        status = keep_items(s, from, object->mask, sizeof(int32_t), &new->mask);
    s->child_count += !status;
    return status;
}

static int keep_children(state *s, const mr_result *from, int64_t number) {
    const mr_object *objects = from->data;
    int status = MR_OK;
    s->cut |= from->cut;
    for (size_t i = 0; i < from->count && !status; i++)
        status = keep_child(s, from, &objects[i], number);
    return status;
}

/* The place of a tile. */
static int keep_part(state *s, const mr_object *part) {
    if (!mr_grow((void **)&s->parts, s->part_count, &s->part_room, sizeof *s->parts))
        return no_memory();
    s->parts[s->part_count++] = *part;
    return MR_OK;
}

/* Copies the vector of an object's picture. */
static int keep_features(state *s, const options *o, const mr_frame *picture, int64_t number) {
    mr_frame_vector found;
    int status = mr_frame_find_vector(picture, o->tensor, &found);
    if (status)
        return status == MR_ERROR_NO_INPUT ? MR_OK : status;
    if (s->length && found.length != s->length)
        return mr_fail(MR_ERROR_DATA, "the vector of an object has %zu numbers, and others had %zu", found.length,
                       s->length);
    s->length = found.length;
    s->odd += isnan(found.data[0]) ? 1 : 0;
    if (s->look_count == MOST_VECTORS || (s->look_count + 1) * s->length > MOST_FEATURE_BYTES / sizeof(float))
        return MR_OK;
    if (!mr_grow((void **)&s->look, s->look_count, &s->look_room, sizeof *s->look) ||
        !mr_grow((void **)&s->vectors, s->look_count, &s->vector_room, s->length * sizeof *s->vectors))
        return no_memory();
    memcpy(s->vectors + s->look_count * s->length, found.data, s->length * sizeof *s->vectors);
    s->look[s->look_count++] = number;
    return MR_OK;
}

static void forget(state *s) {
    s->look_count = s->answer_count = s->child_count = s->part_count = s->byte_count = s->facing.count = 0;
    s->cut = s->unsearched = s->came = false;
}

static bool belongs(const state *s, const mr_frame *frame) {
    return s->frame.epoch == frame->identity.epoch && s->frame.seq == frame->identity.seq;
}

/* With upside_down, the newest classes are no answer, but a vote. */
static int take_classes(state *s, const options *o, const mr_frame *picture, const mr_result *found, int64_t number) {
    const bool vote = o->upside_down.given && found == mr_frame_result(picture, mr_kind_classes(), NULL);
    return vote ? mr_facing_add(&s->facing, number, picture, found, o->upside_down.class)
                : keep_class(s, found, number);
}

/* Results are newest first, and crop's own is the oldest. A frame has only the newest of several that a stage, or a
 * chain of detect and track, gave. If crop left out objects (cut), a detector has not searched those. */
static int take_picture(mr_stage *self, const mr_frame *picture) {
    const options *o = self->options;
    state *s = self->state;
    const mr_result *own = picture->results, *newest = NULL;
    if (!belongs(s, picture))
        forget(s);
    s->frame = picture->identity;
    s->came = true;
    while (own && own->next)
        own = own->next;
    if (!own || own->kind != mr_kind_objects() || !own->count)
        return MR_OK;
    const int64_t number = ((const mr_object *)own->data)->number;
    int status = MR_OK;
    for (const mr_result *one = picture->results; one != own && !status; one = one->next) {
        const bool copy = one->kind == own->kind && strcmp(one->stage, own->stage) == 0;
        if (one->kind == mr_kind_classes())
            status = take_classes(s, o, picture, one, number);
        else if (one->kind == mr_kind_text())
            status = keep_texts(s, one, number);
        else if (one->kind == mr_kind_objects() && !newest && !copy) {
            s->cut |= own->cut;
            status = keep_children(s, newest = one, number);
        }
    }
    if (o->features && !status)
        status = keep_features(s, o, picture, number);
    if (newest && o->merge.given && !status)
        status = keep_part(s, own->data);
    s->unsearched |= !newest && may_search(&self->inputs[CROPS]);
    s->cut |= status != MR_OK;
    return status;
}

/* ---- onto the objects -------------------------------------------------------------------------------------------- */

static int add_attribute(state *s, mr_result *result, const mr_object_attribute *attribute, const void *text,
                         size_t bytes) {
    if (!mr_grow((void **)&s->attributes, s->attribute_count, &s->attribute_room, sizeof *s->attributes))
        return no_memory();
    mr_object_attribute *new = &s->attributes[s->attribute_count++];
    *new = *attribute;
    return bytes ? mr_result_add_items(result, text, bytes, 1, &new->text) : MR_OK;
}

/* The answers from this frame; those for a track become votes, if there is a vote. */
static int add_answers(state *s, mr_result *result, const mr_object *object, int64_t number) {
    int status = MR_OK;
    for (size_t i = 0; i < s->answer_count && !status; i++) {
        const answer *one = &s->answers[i];
        const mr_object_attribute *found = &one->attribute;
        const char *text = one->text.bytes ? (const char *)s->bytes + one->text.at : NULL;
        if (one->number != number)
            continue;
        const mr_ballot_vote vote = {found->stage, found->index, found->score, found->label, text, one->text.bytes};
        status = s->votes && object->track ? mr_ballot_add(s->votes, object->track, &vote)
                                           : add_attribute(s, result, found, text, one->text.bytes);
    }
    return status;
}

static int add_winners(state *s, mr_result *result, const mr_object *object) {
    enum { MOST_STAGES = 32 };
    mr_ballot_vote winners[MOST_STAGES];
    int status = MR_OK;
    const size_t count = mr_ballot_count(s->votes, object->track, winners, MOST_STAGES);
    for (size_t i = 0; i < count && !status; i++) {
        const mr_object_attribute won = {winners[i].stage, winners[i].index, winners[i].score, winners[i].label, {0}};
        status = add_attribute(s, result, &won, winners[i].text, winners[i].text ? winners[i].text_bytes : 0);
    }
    return status;
}

/* Adds attributes to those that the object has. */
static int describe(state *s, mr_result *result, size_t index) {
    mr_object *object = (mr_object *)result->data + index;
    const mr_object_attribute *before = mr_result_items(result, object->attributes);
    const size_t count = object->attributes.count;
    int status = MR_OK;
    s->attribute_count = 0;
    for (size_t i = 0; i < count && !status; i++)
        status = add_attribute(s, result, &before[i], NULL, 0);
    if (!status)
        status = add_answers(s, result, object, mr_object_number(result, index));
    if (!status && s->votes && object->track)
        status = add_winners(s, result, object);
    if (status || s->attribute_count == count)
        return status;
    return mr_result_add_items(result, s->attributes, s->attribute_count, sizeof *s->attributes, &object->attributes);
}

static int add_items(const state *s, mr_result *result, const kept *from, size_t each, mr_items *to) {
    return from->bytes ? mr_result_add_items(result, s->bytes + from->at, from->bytes / each, each, to) : MR_OK;
}

/* Adds the objects that were found in others' pictures, and numbers them after all that are there. */
static int add_children(const state *s, mr_result *result) {
    mr_object *objects = result->data;
    int64_t number = 0;
    int status = MR_OK;
    for (size_t i = 0; i < result->count; i++) {
        const int64_t taken = mr_object_number(result, i);
        number = taken > number ? taken : number;
    }
    for (size_t i = 0; i < s->child_count && !status; i++) {
        mr_object *new = &objects[result->count++];
        *new = s->children[i].object;
        new->number = ++number;
        status = add_items(s, result, &s->children[i].quad, sizeof(float), &new->quad);
        if (!status)
            status = add_items(s, result, &s->children[i].points, sizeof(float), &new->points);
        if (!status)
            status = add_items(s, result, &s->children[i].mask, sizeof(int32_t), &new->mask);
    }
    return status;
}

/* For qsort. A score that is not a number comes last; the order of equal ones is that of their numbers. */
static int compare(const void *one, const void *other) {
    const mr_object *a = one, *b = other;
    const float left = isnan(a->score) ? -INFINITY : a->score, right = isnan(b->score) ? -INFINITY : b->score;
    return left != right ? (left > right ? -1 : 1) : (a->number > b->number) - (a->number < b->number);
}

static void sort(mr_result *result) {
    if (result->count)
        qsort(result->data, result->count, sizeof(mr_object), compare);
}

static const float *vector_of(const state *s, int64_t number) {
    for (size_t i = 0; i < s->look_count; i++)
        if (s->look[i] == number)
            return s->vectors + i * s->length;
    return NULL;
}

/* Adds the tensor with a row for each object; NaN for those without a vector. If no object has one, there is no tensor.
 * Objects past the most rows have none. */
static int put_features(const state *s, mr_io *io, mr_frame *frame, const mr_result *objects) {
    void *data;
    if (!s->look_count || !objects->count)
        return MR_OK;
    const size_t fit = MOST_FEATURE_BYTES / sizeof(float) / s->length, most = fit < MOST_VECTORS ? fit : MOST_VECTORS;
    const size_t rows = objects->count < most ? objects->count : most;
    const mr_format format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2,
                                              (const int64_t[]){(int64_t)rows, (int64_t)s->length});
    int status = mr_io_add_tensor(io, frame, FEATURES, &format, &data);
    for (size_t i = 0; i < rows && !status; i++) {
        float *row = (float *)data + i * s->length;
        const float *vector = vector_of(s, mr_object_number(objects, i));
        for (size_t k = 0; k < s->length; k++)
            row[k] = vector ? vector[k] : NAN;
    }
    return status;
}

static int put_on(const options *o, state *s, mr_io *io, mr_frame *frame, const mr_result *objects) {
    mr_result *result;
    int status = mr_io_renew_objects(io, frame, objects, s->child_count, &result);
    for (size_t i = 0; !status && i < objects->count; i++)
        status = describe(s, result, i);
    if (!status && o->upside_down.given) {
        mr_facing_vote(&s->facing, o->upside_down.score, o->upside_down.others);
        status = mr_facing_turn(&s->facing, result);
    }
    if (!status && s->child_count) {
        for (size_t i = 0; i < result->count; i++)
            ((mr_object *)result->data)[i].number = mr_object_number(result, i);
        status = add_children(s, result);
        sort(result);
    }
    if (!status)
        result->cut |= s->cut || s->unsearched;
    return status || !o->features ? status : put_features(s, io, frame, result);
}

/* Drops objects that another tile has too, and those of no tile. */
static int merge(state *s, const options *o) {
    const mr_merge_limits limits = {o->merge.iou, o->merge.inside};
    const size_t count = s->child_count;
    mr_object *found = mr_calloc(count + 1, sizeof *found);
    bool *stay = mr_calloc(count + 1, sizeof *stay);
    for (size_t i = 0; found && i < count; i++)
        found[i] = s->children[i].object;
    int status = found && stay ? mr_merge_parts(s->parts, s->part_count, found, count, &limits, stay) : no_memory();
    s->child_count = 0;
    for (size_t i = 0; i < count && !status; i++)
        if (stay[i]) {
            s->children[s->child_count] = s->children[i];
            s->children[s->child_count++].object.parent = 0;
        }
    mr_free(found);
    mr_free(stay);
    return status;
}

/* The objects of all tiles, after those of the frame. If no tile came, the result is empty and cut; if they came and
 * none was searched, there is no result. track then says where the objects should be. */
static int put_tiles(const mr_stage *self, mr_io *io, mr_frame *frame, const mr_result *objects) {
    const options *o = self->options;
    state *s = self->state;
    mr_result *result;
    int status = merge(s, o);
    s->cut |= !s->came && may_search(&self->inputs[CROPS]);
    if (!status && objects)
        return put_on(o, s, io, frame, objects);
    if (!status && !s->part_count && !s->cut)
        return MR_OK;
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_objects(), s->child_count, &result);
    if (!status)
        status = add_children(s, result);
    if (status)
        return status;
    sort(result);
    result->cut = s->cut || s->unsearched;
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    const mr_frame *input = mr_io_input(io);
    const mr_result *objects = mr_frame_result(input, mr_kind_objects(), NULL);
    mr_frame *frame = NULL;
    if (input->identity.sub)
        return take_picture(self, input);
    if (!belongs(s, input))
        forget(s);
    s->cut |= mr_io_lost_objects(io) && may_search(&self->inputs[CROPS]);
    if (s->votes)
        mr_ballot_advance(s->votes, input->identity.epoch, mr_frame_time_ns(input));
    int status = mr_io_share(io, input, &frame);
    if (!status && o->merge.given && !(input->flags & MR_FRAME_AWAY))
        status = put_tiles(self, io, frame, objects);
    else if (!status && objects)
        status = put_on(o, s, io, frame, objects);
    forget(s);
    return mr_io_finish(io, 0, frame, status);
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    return o->vote.given ? mr_ballot_create(&((state *)self->state)->votes, o->vote.over_ns) : MR_OK;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    if (s->odd)
        mr_stage_warn(self, "the features of %llu object%s of %s are not numbers: track uses boxes alone for them",
                      (unsigned long long)s->odd, s->odd == 1 ? "" : "s", self->source_id);
    mr_ballot_destroy(&s->votes);
    mr_facing_fini(&s->facing);
    mr_free(s->answers);
    mr_free(s->children);
    mr_free(s->parts);
    mr_free(s->bytes);
    mr_free(s->look);
    mr_free(s->vectors);
    mr_free(s->attributes);
}

static const mr_option vote_table[] = {
    {.name = "over", .kind = MR_OPTION_DURATION, .offset = offsetof(vote_options, over_ns), .fallback = "0s",
     .max = 3600e9, .example = "2s", .help = "answers count for so long, by presentation time"},
    MR_OPTIONS_END};
static const mr_option merge_table[] = {
    {.name = "iou", .kind = MR_OPTION_DOUBLE, .offset = offsetof(merge_options, iou), .fallback = "0.5", .min = 0,
     .max = 1, .help = "objects from two tiles are one if their intersection is a larger share of their union"},
    {.name = "inside", .kind = MR_OPTION_DOUBLE, .offset = offsetof(merge_options, inside), .fallback = "0.6",
     .min = 0, .max = 1, .help = "an object at the edge of its tile goes if a larger share of it lies in another"},
    MR_OPTIONS_END};
static const mr_option upside_table[] = {
    {.name = "class", .kind = MR_OPTION_STRING, .offset = offsetof(upside_options, class), .required = true,
     .example = "180", .help = "the class of pictures that are upside down: its label, or without labels its number"},
    {.name = "score", .kind = MR_OPTION_DOUBLE, .offset = offsetof(upside_options, score), .fallback = "0.7",
     .max = 1, .help = "the probability must be higher, with that of the other lines added"},
    {.name = "others", .kind = MR_OPTION_DOUBLE, .offset = offsetof(upside_options, others), .fallback = "0.99",
     .min = 0.5, .max = 1,
     .help = "all other parallel lines together make it at most so probable that a line runs as they do: one that is "
             "surer of itself may run the other way; 0.5: each line is judged alone"},
    MR_OPTIONS_END};
static const mr_option table[] = {
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = offsetof(options, features), .fallback = "false",
     .help = "adds the vectors of the objects' pictures (features, infer, hog, histogram) for track, as a tensor "
             "named features with a row for each object, in the order of objects; NaN for objects without one"},
    {.name = "merge", .kind = MR_OPTION_MAP, .offset = offsetof(options, merge), .fields = merge_table,
     .help = "after tile: objects that lie in several tiles stay once"},
    {.name = "tensor", .kind = MR_OPTION_STRING, .offset = offsetof(options, tensor), .example = "embedding",
     .help = "with features: which of the tensors that infer adds; if not given, the frame's vector, or else the "
             "newest tensor that is one"},
    {.name = "upside_down", .kind = MR_OPTION_MAP, .offset = offsetof(options, upside_down), .fields = upside_table,
     .help = "lines of text that stand on their heads: classify says how probable that is for the picture of each line "
             "(straighten), and all lines of the frame vote. The corners of each line then begin at the upper left of "
             "what it shows, so that crop and straighten make it upright"},
    {.name = "vote", .kind = MR_OPTION_MAP, .offset = offsetof(options, vote), .fields = vote_table,
     .help = "an object with a track gets the answer that most of its pictures had, also in frames without one"},
    MR_OPTIONS_END};

static const mr_port inputs[] = {
    {.name = "frames", .help = "the frames that have the objects: those that crop takes, or later ones"},
    {.name = "crops", .help = "pictures of crop or tile, or results from them"}, {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "the frames; objects have the results from their pictures"}, {0}};

const mr_stage_type mr_gather_stage = {
    .name = "gather",
    .summary = "puts results from the pictures of objects onto the objects",
    .help = "Written with join: {frames: a, crops: b} instead of input. An object gets attributes: the best class of "
            "each stage that gave classes, and texts. Objects that were found in its picture are added to the frame, "
            "with its number as their parent. A frame does not wait for pictures that were dropped; it passes with "
            "the others' results. If a stage would have searched them for objects, blur hides the frame whole; so it "
            "does with pictures that detect has passed (every). With vote, votes end with an epoch (a turn of a loop, "
            "another connection).",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .cascade = MR_CASCADE_GATHER,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
