#include "kernels/text/ctc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/scratch.h"
#include "millrace/status.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

static size_t best_of(const mr_ctc *ctc, const float *row) {
    size_t best = ctc->blank;
    for (size_t i = 0; i < ctc->classes; i++)
        if (row[i] > row[best] || (i < best && row[i] == row[best]) || (isnan(row[best]) && !isnan(row[i])))
            best = i;
    return best;
}

/* The divisor that makes probabilities of exponentials; probabilities stay as they are. */
static double sum_of(const mr_ctc *ctc, const float *row, float most) {
    double sum = 0;
    for (size_t i = 0; i < ctc->classes && ctc->logits; i++)
        sum += isnan(row[i]) ? 0 : exp(fmin((double)row[i] - (double)most, 0));
    return sum;
}

static double probability(const mr_ctc *ctc, float value, float most, double sum) {
    if (isnan(value))
        return 0;
    if (!ctc->logits)
        return (double)fminf(fmaxf(value, 0), 1);
    return value == most ? 1 / fmax(sum, 1) : exp((double)value - (double)most) / fmax(sum, 1);
}

/* ---- greedy ------------------------------------------------------------------------------------------------------ */

static bool is_between_characters(const mr_ctc *ctc, const int32_t *character, size_t count, size_t next) {
    return count > 0 && (size_t)character[count - 1] != ctc->space && next != ctc->space;
}

static double probability_in(const mr_ctc *ctc, const float *row, size_t best, size_t class) {
    return probability(ctc, row[class], row[best], sum_of(ctc, row, row[best]));
}

static int read_greedily(const mr_ctc *ctc, const float *values, size_t steps, mr_ctc_text *text) {
    int32_t *character = mr_scratch(steps * sizeof *character);
    size_t before = ctc->blank, count = 0, scored = 0;
    double sum = 0, space = 0; /* the space's probability since the last character */
    if (!character)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for %zu steps", steps);
    for (size_t step = 0; step < steps; step++) {
        const float *row = values + step * ctc->classes;
        const size_t best = best_of(ctc, row);
        if (best != ctc->blank && best != before) {
            /* Blank steps have room for it. */
            if (ctc->space_score > 0 && space >= ctc->space_score && is_between_characters(ctc, character, count, best))
                character[count++] = (int32_t)ctc->space;
            sum += probability_in(ctc, row, best, best);
            character[count++] = (int32_t)best;
            scored++;
        }
        if (best != ctc->blank)
            space = 0;
        else if (ctc->space_score > 0)
            space = fmax(space, probability_in(ctc, row, best, ctc->space));
        before = best;
    }
    *text = (mr_ctc_text){character, count, scored ? (float)(sum / (double)scored) : 0};
    return MR_OK;
}

/* ---- beam -------------------------------------------------------------------------------------------------------- */

/* A beginning of a text: the one before it, and one more character. Each exists once. */
typedef struct node {
    int32_t parent, character, child, sibling; /* -1: none */
    int32_t length;
} node;

/* A beginning that is followed, with the probability of all ways that end in a blank, and in its last character. */
typedef struct path {
    int32_t node;      /* -1: it has no node yet: */
    int32_t parent, character;
    double blank, last;
} path;

typedef struct search {
    const mr_ctc *ctc;
    node *nodes;
    size_t node_count;
    path *paths;     /* those that are followed, best first */
    path *next;      /* candidates: first those of `paths`, longer by a blank or a repetition, then longer ones */
    size_t path_count, next_count;
    size_t *likely;  /* the step's best classes without blank */
    size_t likely_count;
    int32_t *text;   /* the answer */
    double scale;    /* logarithm of the product of all divisors */
} search;

/* One more than the beam: one of them may be a path's last character. Others cannot be among the best. */
static size_t most_likely(const mr_ctc *ctc) {
    return ctc->beam + 1 < ctc->classes - 1 ? ctc->beam + 1 : ctc->classes - 1;
}

static int begin(search *s, const mr_ctc *ctc, size_t steps) {
    const size_t beam = ctc->beam, nodes = (1 + steps * beam) * sizeof(node);
    const size_t paths = (beam + beam * (1 + most_likely(ctc))) * sizeof(path);
    uint8_t *memory = mr_scratch(nodes + 64 + paths + most_likely(ctc) * sizeof(size_t) + steps * sizeof(int32_t));
    if (!memory)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for %zu steps with a beam of %zu", steps, beam);
    *s = (search){.ctc = ctc, .nodes = (void *)memory, .paths = (void *)(memory + (nodes + 63) / 64 * 64)};
    s->next = s->paths + beam;
    s->likely = (void *)(s->next + beam * (1 + most_likely(ctc)));
    s->text = (void *)(s->likely + most_likely(ctc));
    s->nodes[s->node_count++] = (node){-1, -1, -1, -1, 0};
    s->paths[s->path_count++] = (path){0, -1, -1, 1, 0};
    return MR_OK;
}

/* Inserts the classes into a short sorted list. */
static void find_likely(search *s, const float *row) {
    const size_t most = most_likely(s->ctc);
    s->likely_count = 0;
    for (size_t i = 0; i < s->ctc->classes; i++) {
        if (i == s->ctc->blank || isnan(row[i]) ||
            (s->likely_count == most && row[i] <= row[s->likely[most - 1]]))
            continue;
        size_t at = s->likely_count < most ? s->likely_count++ : most - 1;
        for (; at > 0 && row[s->likely[at - 1]] < row[i]; at--)
            s->likely[at] = s->likely[at - 1];
        s->likely[at] = i;
    }
}

/* Whether a path that is followed is `from` and this character. */
static bool is_followed(const search *s, const path *from, int32_t character) {
    for (size_t i = 0; i < s->path_count; i++)
        if (s->next[i].parent == from->node && s->next[i].character == character)
            return true;
    return false;
}

/* The probability that a path goes on with a character; `one`: the character's. */
static double lengthened(const path *from, int32_t character, double one) {
    return (character == from->character ? from->blank : from->blank + from->last) * one;
}

/* Likely characters are enough: of each path, as many longer ones are better than one with another character as are
 * kept. */
static void lengthen(search *s, const path *from, const float *row, float most, double sum) {
    for (size_t i = 0; i < s->likely_count; i++) {
        const int32_t character = (int32_t)s->likely[i];
        const double ways = lengthened(from, character, probability(s->ctc, row[character], most, sum));
        if (ways > 0 && !is_followed(s, from, character))
            s->next[s->next_count++] = (path){-1, from->node, character, 0, ways};
    }
}

/* The same path, longer by a blank or a repetition, or by its last character from a shorter path that is followed
 * too. */
static path stay(const search *s, const path *one, const float *row, float most, double sum) {
    const double blank = probability(s->ctc, row[s->ctc->blank], most, sum);
    const double again = one->character < 0 ? 0 : probability(s->ctc, row[one->character], most, sum);
    path next = *one;
    next.blank = (one->blank + one->last) * blank;
    next.last = one->last * again;
    for (size_t i = 0; i < s->path_count; i++)
        if (s->paths[i].node == one->parent)
            next.last += lengthened(&s->paths[i], one->character, again);
    return next;
}

/* For qsort: the more probable one first. */
static int compare(const void *one, const void *other) {
    const path *a = one, *b = other;
    const double x = a->blank + a->last, y = b->blank + b->last;
    if (x != y)
        return x > y ? -1 : 1;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return (a->character > b->character) - (a->character < b->character);
}

/* A path's node, which may exist from an earlier step. */
static int32_t node_of(search *s, const path *of) {
    int32_t at = s->nodes[of->parent].child;
    while (at >= 0 && s->nodes[at].character != of->character)
        at = s->nodes[at].sibling;
    if (at >= 0)
        return at;
    node *parent = &s->nodes[of->parent];
    at = (int32_t)s->node_count++;
    s->nodes[at] = (node){of->parent, of->character, -1, parent->child, parent->length + 1};
    return parent->child = at;
}

/* Keeps the best, and divides by the first one's probability, so that numbers do not vanish. */
static void keep_best(search *s) {
    qsort(s->next, s->next_count, sizeof *s->next, compare);
    const double best = s->next[0].blank + s->next[0].last;
    if (!(best > 0))
        return;
    s->path_count = s->next_count < s->ctc->beam ? s->next_count : s->ctc->beam;
    s->scale += log(best);
    for (size_t i = 0; i < s->path_count; i++) {
        s->paths[i] = s->next[i];
        s->paths[i].blank /= best;
        s->paths[i].last /= best;
        if (s->paths[i].node < 0)
            s->paths[i].node = node_of(s, &s->next[i]);
    }
}

/* A step without a number above 0 changes nothing. */
static void take_step(search *s, const float *row) {
    const float most = row[best_of(s->ctc, row)];
    const double sum = sum_of(s->ctc, row, most);
    for (size_t i = 0; i < s->path_count; i++)
        s->next[i] = stay(s, &s->paths[i], row, most, sum);
    s->next_count = s->path_count;
    find_likely(s, row);
    for (size_t i = 0; i < s->path_count; i++)
        lengthen(s, &s->paths[i], row, most, sum);
    keep_best(s);
}

int mr_ctc_read(const mr_ctc *ctc, const float *values, size_t steps, mr_ctc_text *text) {
    search s = {0};
    if (ctc->beam <= 1 || ctc->classes < 2)
        return read_greedily(ctc, values, steps, text);
    int status = begin(&s, ctc, steps);
    for (size_t step = 0; step < steps && !status; step++)
        take_step(&s, values + step * ctc->classes);
    if (status)
        return status;
    const path *best = &s.paths[0];
    const size_t count = (size_t)s.nodes[best->node].length;
    for (int32_t at = best->node, i = (int32_t)count; i > 0; at = s.nodes[at].parent)
        s.text[--i] = s.nodes[at].character;
    const double likelihood = s.scale + log(best->blank + best->last);
    *text = (mr_ctc_text){s.text, count, count ? (float)fmin(exp(likelihood / (double)count), 1) : 0};
    return MR_OK;
}
