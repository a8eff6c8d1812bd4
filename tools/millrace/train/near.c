#include "tools/millrace/train/near.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/train/features.h"

static const char pipeline[] = "version: 1\n"
                               "pipeline: near-duplicates\n"
                               "sources: {files: {uri: files.jsonl}}\n"
                               "stages:\n"
                               "  decode: {input: files}\n"
                               "  phash: {input: decode, form: bits}\n"
                               "  classify: {input: phash, tensor: phash}\n"
                               "  end: {type: \"null\", input: classify}\n";

/* The hash uses 32x32 pixels and says little about smaller pictures: handwritten digits would all look alike. */
enum { LEAST_SIDE = 48 };
enum { BITS = 64, BANDS = MR_NEAR_BITS + 1 };

/* This limit takes a few seconds. A million pictures from a motionless camera all look alike and would take hours. */
#define MOST_COMPARISONS UINT64_C(2000000000)

typedef struct hashed {
    uint64_t hash;
    size_t row;
    int64_t at_ns;
    mr_split part;
} hashed;

/* If two hashes differ in at most MR_NEAR_BITS, at least one band is equal. */
static uint64_t band_of(uint64_t hash, int band) {
    int from = band * BITS / BANDS, to = (band + 1) * BITS / BANDS;
    return hash >> from & ((UINT64_C(1) << (to - from)) - 1);
}

static _Thread_local int sorted_band;

static int compare_bands(const void *a, const void *b) {
    const hashed *x = a, *y = b;
    uint64_t left = band_of(x->hash, sorted_band), right = band_of(y->hash, sorted_band);
    if (left != right)
        return left < right ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static bool met_before(uint64_t a, uint64_t b, int band) {
    for (int i = 0; i < band; i++)
        if (band_of(a, i) == band_of(b, i))
            return true;
    return false;
}

static int compare_pairs(const void *a, const void *b) {
    const mr_near_pair *x = a, *y = b;
    if (x->bits != y->bits)
        return x->bits - y->bits;
    return x->a != y->a ? (x->a < y->a ? -1 : 1) : x->b < y->b ? -1 : 1;
}

static void add_pair(mr_near *near, const hashed *a, const hashed *b, int bits) {
    near->count++;
    if (near->listed == MR_NEAR_LISTED)
        return;
    const hashed *first = a->row < b->row ? a : b, *other = first == a ? b : a;
    near->pair[near->listed++] = (mr_near_pair){
        .a = first->row, .a_ns = first->at_ns, .b = other->row, .b_ns = other->at_ns, .bits = bits};
}

/* Hashes [first, last) are equal in that band. `left`: how many comparisons remain. */
static void compare_bucket(mr_near *near, const hashed *all, size_t first, size_t last, int band, uint64_t *left) {
    for (size_t i = first; i < last; i++) {
        if (*left < last - i) {
            near->cut_short = true;
            return;
        }
        *left -= last - i;
        for (size_t j = i + 1; j < last; j++) {
            int bits = __builtin_popcountll(all[i].hash ^ all[j].hash);
            if (all[i].part != all[j].part && bits <= MR_NEAR_BITS && !met_before(all[i].hash, all[j].hash, band))
                add_pair(near, &all[i], &all[j], bits);
        }
    }
}

static void compare_all(mr_near *near, hashed *all, size_t count) {
    uint64_t left = MOST_COMPARISONS;
    for (int band = 0; band < BANDS; band++) {
        sorted_band = band;
        qsort(all, count, sizeof *all, compare_bands);
        for (size_t first = 0, last; first < count; first = last) {
            for (last = first + 1; last < count && band_of(all[last].hash, band) == band_of(all[first].hash, band);)
                last++;
            compare_bucket(near, all, first, last, band, &left);
        }
    }
    qsort(near->pair, near->listed, sizeof *near->pair, compare_pairs);
}

/* A small picture has no hash, and a uniform one hardly any bits: all of them would look alike. */
static bool is_flat(uint64_t hash) {
    return __builtin_popcountll(hash) < MR_NEAR_BITS;
}

static uint64_t hash_at(const mr_features *features, size_t i) {
    uint64_t hash = 0;
    for (int bit = 0; bit < BITS; bit++)
        hash |= (uint64_t)(features->data[i * BITS + (size_t)bit] > 0) << bit;
    return hash;
}

static int compare_features(mr_near *near, const mr_set *set, const mr_features *features) {
    hashed *all = calloc(features->count + 1, sizeof *all);
    size_t count = 0;
    near->pair = calloc(MR_NEAR_LISTED, sizeof *near->pair);
    if (!all || !near->pair || features->width != BITS) {
        free(all);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the hashes");
    }
    for (size_t i = 0; i < features->count; i++) {
        hashed *one = &all[count];
        *one = (hashed){
            .hash = hash_at(features, i), .row = features->row[i], .at_ns = features->at_ns[i],
            .part = set->row[features->row[i]].part};
        count += !is_flat(one->hash);
    }
    compare_all(near, all, count);
    free(all);
    return MR_OK;
}

/* ---- by their vectors -------------------------------------------------------------------------------------------- */

/* A picture without a hash, or one whose vector may equal such a picture's. */
typedef struct vector {
    uint64_t sum; /* sum over the numbers */
    size_t index; /* in the features */
    bool hashless;
} vector;

static uint64_t sum_of(const float *numbers, size_t width) {
    const mr_content_key none = {0};
    return mr_content_key_join(&none, numbers, width * sizeof *numbers).low;
}

static int compare_sums(const void *a, const void *b) {
    const vector *x = a, *y = b;
    if (x->sum != y->sum)
        return x->sum < y->sum ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool is_at(const mr_features *features, size_t i, size_t row, int64_t at_ns) {
    return i < features->count && features->row[i] == row && features->at_ns[i] == at_ns;
}

/* Both are ordered by row and time; flat pictures in `hashes` have no hash. */
static size_t list_vectors(vector *all, const mr_features *of, const mr_features *hashes) {
    size_t hashless = 0;
    for (size_t i = 0, h = 0; i < of->count; i++) {
        while (h < hashes->count && (hashes->row[h] < of->row[i] ||
                                     (hashes->row[h] == of->row[i] && hashes->at_ns[h] < of->at_ns[i])))
            h++;
        all[i] = (vector){.sum = sum_of(of->data + i * of->width, of->width),
                          .index = i,
                          .hashless = is_at(hashes, h, of->row[i], of->at_ns[i]) && is_flat(hash_at(hashes, h))};
        hashless += all[i].hashless;
    }
    return hashless;
}

static void compare_equal_sums(mr_near *near, const mr_set *set, const mr_features *of, const vector *all, size_t first,
                               size_t last, uint64_t *left) {
    for (size_t i = first; i < last; i++)
        for (size_t j = i + 1; j < last; j++) {
            const size_t a = all[i].index, b = all[j].index;
            if (!*left) {
                near->cut_short = true;
                return;
            }
            --*left;
            if ((!all[i].hashless && !all[j].hashless) ||
                memcmp(of->data + a * of->width, of->data + b * of->width, of->width * sizeof *of->data) != 0)
                continue;
            const hashed x = {.row = of->row[a], .at_ns = of->at_ns[a], .part = set->row[of->row[a]].part};
            const hashed y = {.row = of->row[b], .at_ns = of->at_ns[b], .part = set->row[of->row[b]].part};
            if (x.part != y.part)
                add_pair(near, &x, &y, 0);
        }
}

/* Pictures without a hash and with equal vectors: to the pipeline they are the same picture. */
static int compare_vectors(mr_near *near, const mr_set *set, const mr_features *of, const mr_features *hashes) {
    vector *all = calloc(of->count + 1, sizeof *all);
    uint64_t left = MOST_COMPARISONS;
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the sums of %zu vectors", of->count);
    near->hashless = list_vectors(all, of, hashes);
    qsort(all, of->count, sizeof *all, compare_sums);
    for (size_t first = 0, last; near->hashless && first < of->count; first = last) {
        for (last = first + 1; last < of->count && all[last].sum == all[first].sum;)
            last++;
        compare_equal_sums(near, set, of, all, first, last, &left);
    }
    qsort(near->pair, near->listed, sizeof *near->pair, compare_pairs);
    free(all);
    return MR_OK;
}

int mr_near_find(mr_near *near, mr_set *set, const mr_features *vectors, const mr_extraction *like, const char *folder,
                 int workers, bool *told) {
    const mr_overrides none = {.workers = workers};
    mr_extraction extraction = {
        .path = "near-duplicates", .text = pipeline, .overrides = &none, .show = like->show, .least_side = LEAST_SIDE};
    mr_features features = {0};
    *near = (mr_near){.looked = true};
    *told = mr_extraction_prepare(&extraction) || mr_extraction_trace(&extraction);
    extraction.choice = like->choice;
    int status = *told ? MR_ERROR_INTERNAL : mr_features_make(&features, set, &extraction, folder, told);
    if (!status)
        status = compare_features(near, set, &features);
    if (!status)
        status = compare_vectors(near, set, vectors, &features);
    mr_features_fini(&features);
    mr_extraction_fini(&extraction);
    return status;
}

void mr_near_fini(mr_near *near) {
    free(near->pair);
    *near = (mr_near){0};
}

void mr_near_tell(const mr_near *near, const mr_set *set, FILE *stream) {
    enum { MOST = 3 };
    if (near->hashless)
        mr_print(stream,
                 "  alike      %zu %s under %d pixels, or of one colour: equal vectors were looked for, not similar "
                 "pictures\n",
                 near->hashless, near->hashless == 1 ? "picture is" : "pictures are", LEAST_SIDE);
    if (!near->count)
        return;
    mr_print(stream, "  alike      %s%zu %s of pictures in different parts look alike: name their groups in a list\n",
             near->cut_short ? "at least " : "", near->count, near->count == 1 ? "pair" : "pairs");
    for (size_t i = 0; i < near->listed && i < MOST; i++) {
        const mr_near_pair *pair = &near->pair[i];
        char a[512], b[512];
        mr_set_print_picture(set, pair->a, pair->a_ns, a, sizeof a);
        mr_set_print_picture(set, pair->b, pair->b_ns, b, sizeof b);
        mr_print(stream, "             %s (%s), %s (%s)\n", a, mr_split_name(set->row[pair->a].part), b,
                 mr_split_name(set->row[pair->b].part));
    }
}

void mr_near_put(const mr_near *near, const mr_set *set, yajl_gen json) {
    if (!near->looked)
        return;
    MR_JSON_MAP(json, "look_alike") {
        mr_json_integer(json, "pairs", (int64_t)near->count);
        mr_json_bool(json, "cut_short", near->cut_short);
        mr_json_integer(json, "by_vector", (int64_t)near->hashless);
        MR_JSON_ARRAY(json, "listed")
            for (size_t i = 0; i < near->listed; i++)
                MR_JSON_MAP(json, NULL) {
                    const mr_near_pair *pair = &near->pair[i];
                    mr_set_put_picture(set, pair->a, pair->a_ns, "file", "at", json);
                    mr_set_put_picture(set, pair->b, pair->b_ns, "other", "other_at", json);
                    mr_json_integer(json, "bits", pair->bits);
                }
    }
}
