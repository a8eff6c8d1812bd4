#include "stages/objects/cascade/facing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/objects/found.h"

/* Cosine of the largest angle between lines that count as parallel. */
static const double PARALLEL = 0.7071;

enum { CORNERS = 4 };

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* A class without a label has a number. */
static bool is_named(const mr_class *class, const char *name) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)class->index);
    return strcmp(class->label ? class->label : number, name) == 0;
}

/* A class that is not listed has what the others leave. */
static double probability_of(const mr_result *found, const char *class) {
    double rest = 1;
    for (size_t i = 0; i < found->count; i++) {
        if (is_named(&found->classes[i], class))
            return (double)found->classes[i].score;
        rest -= (double)found->classes[i].score;
    }
    return found->count ? rest : NAN;
}

static void find_direction(const mr_frame *picture, double along[2]) {
    double left[2], right[2];
    along[0] = along[1] = 0;
    if (!picture->geometry.width)
        return;
    mr_geometry_to_display(&picture->geometry, 0, 0, left);
    mr_geometry_to_display(&picture->geometry, picture->geometry.width, 0, right);
    const double length = hypot(right[0] - left[0], right[1] - left[1]);
    for (int axis = 0; axis < 2 && length > 0; axis++)
        along[axis] = (right[axis] - left[axis]) / length;
}

int mr_facing_add(mr_facing *facing, int64_t number, const mr_frame *picture, const mr_result *found,
                  const char *class) {
    if (!mr_grow((void **)&facing->line, facing->count, &facing->room, sizeof *facing->line))
        return mr_fail(MR_ERROR_MEMORY, "no memory for results of objects");
    mr_facing_line *new = &facing->line[facing->count++];
    *new = (mr_facing_line){.number = number, .odds = mr_facing_odds(probability_of(found, class))};
    find_direction(picture, new->along);
    return MR_OK;
}

void mr_facing_fini(mr_facing *facing) {
    mr_free(facing->line);
    *facing = (mr_facing){0};
}

/* ---- the vote ---------------------------------------------------------------------------------------------------- */

double mr_facing_odds(double probability) {
    static const double LEAST = 1e-6;
    const double limited = isnan(probability) ? 0.5 : fmin(fmax(probability, LEAST), 1 - LEAST);
    return log(limited / (1 - limited));
}

/* The sum of the log odds of all other lines that are parallel to one; those that run the other way count reversed. */
static double odds_of_others(const mr_facing *facing, const mr_facing_line *one) {
    double sum = 0;
    for (const mr_facing_line *line = facing->line; line < facing->line + facing->count; line++) {
        const double cosine = line->along[0] * one->along[0] + line->along[1] * one->along[1];
        if (line != one && fabs(cosine) > PARALLEL)
            sum += cosine > 0 ? line->odds : -line->odds;
    }
    return sum;
}

void mr_facing_vote(const mr_facing *facing, double score, double others) {
    const double limit = mr_facing_odds(score), most = mr_facing_odds(others);
    for (size_t i = 0; i < facing->count; i++) {
        mr_facing_line *line = &facing->line[i];
        line->turned = line->odds + fmin(fmax(odds_of_others(facing, line), -most), most) > limit;
    }
}

/* ---- corners ----------------------------------------------------------------------------------------------------- */

static void corners_of(const mr_result *objects, const mr_object *object, float corner[2 * CORNERS]) {
    const float box[2 * CORNERS] = {object->left, object->top, object->right, object->top,
                                    object->right, object->bottom, object->left, object->bottom};
    const float *quad = object->quad.count == 2 * CORNERS ? mr_result_items(objects, object->quad) : NULL;
    memcpy(corner, quad ? quad : box, sizeof box);
}

/* The cosine of the angle between the line and the side that begins at a corner. */
static double cosine_of(const mr_facing_line *line, const float corner[2 * CORNERS], int first) {
    const float *from = corner + 2 * first, *to = corner + 2 * ((first + 1) % CORNERS);
    const double x = (double)to[0] - (double)from[0], y = (double)to[1] - (double)from[1];
    return (x * line->along[0] + y * line->along[1]) / fmax(hypot(x, y), 1e-6);
}

/* The corner at which the object begins. If it is not known where its picture was, it was not turned by a quarter. */
static int first_corner(const mr_facing_line *line, const float corner[2 * CORNERS]) {
    int first = 0;
    for (int i = 1; i < CORNERS; i++)
        if (cosine_of(line, corner, i) > cosine_of(line, corner, first))
            first = i;
    return line->turned ? (first + CORNERS / 2) % CORNERS : first;
}

static int turn(const mr_facing_line *line, mr_result *objects, mr_object *object) {
    float before[2 * CORNERS], after[2 * CORNERS];
    corners_of(objects, object, before);
    const int first = first_corner(line, before);
    for (int i = 0; i < 2 * CORNERS; i++)
        after[i] = before[(i + 2 * first) % (2 * CORNERS)];
    return first ? mr_result_add_items(objects, after, 2 * CORNERS, sizeof *after, &object->quad) : MR_OK;
}

int mr_facing_turn(const mr_facing *facing, mr_result *objects) {
    int status = MR_OK;
    for (size_t i = 0; i < objects->count && !status; i++)
        for (size_t k = 0; k < facing->count && !status; k++)
            if (facing->line[k].number == mr_object_number(objects, i))
                status = turn(&facing->line[k], objects, (mr_object *)objects->data + i);
    return status;
}
