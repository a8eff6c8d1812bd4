/* The report at a training's end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/card.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/train/training.h"

/* Counts rows per class, MR_SPLITS numbers each; the caller must free the result. NULL: no memory. */
static size_t *count_parts(const mr_training *t) {
    size_t *counts = calloc(t->rows.class_count * MR_SPLITS + 1, sizeof *counts);
    for (size_t i = 0; counts && i < t->features.count; i++)
        counts[(size_t)t->classes[i] * MR_SPLITS + t->set.row[t->features.row[i]].part]++;
    return counts;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void sum_parts(const mr_training *t, size_t sums[MR_SPLITS]) {
    memset(sums, 0, MR_SPLITS * sizeof *sums);
    for (size_t i = 0; i < t->features.count; i++)
        sums[t->set.row[t->features.row[i]].part]++;
}

static void tell_data(const mr_training *t, FILE *stream) {
    size_t sums[MR_SPLITS];
    const mr_training_params *params = t->params;
    sum_parts(t, sums);
    mr_print(stream, "  data       %s: %zu pictures of %zu classes\n", params->data, t->features.count,
             t->rows.class_count);
    mr_set_tell_left_out(&t->set, stream);
    mr_print(stream, "  parts      %zu train, %zu validation, %zu test", sums[MR_SPLIT_TRAIN],
             sums[MR_SPLIT_VALIDATION], sums[MR_SPLIT_TEST]);
    if (t->set.named_parts < t->set.count)
        mr_print(stream, ", by %s, seed %" PRIu64, t->set.named_groups ? "group" : "content", params->seed);
    mr_print(stream, "%s\n",
             t->set.named_parts ? t->set.named_parts == t->set.count ? ", as the list says" : "; some as the list says"
                                : "");
    mr_near_tell(&t->near, &t->set, stream);
}

void mr_training_tell_untrained(const mr_training *t, FILE *stream) {
    enum { MOST = 5 };
    size_t *counts = count_parts(t), told = 0;
    for (size_t j = 0; counts && j < t->rows.class_count; j++) {
        const size_t *of = &counts[j * MR_SPLITS], others = of[MR_SPLIT_VALIDATION] + of[MR_SPLIT_TEST];
        if (of[MR_SPLIT_TRAIN] || !others || told++ >= MOST)
            continue;
        mr_print(stream, "  parts      \"%s\": %zu for validation and %zu for the test, none to train on\n",
                 t->rows.class_names[j], of[MR_SPLIT_VALIDATION], of[MR_SPLIT_TEST]);
    }
    if (told > MOST)
        mr_print(stream, "             and %zu more classes\n", told - MOST);
    if (told && t->set.named_parts < t->set.count)
        mr_print(stream,
                 "             they were drawn by %s, seed %" PRIu64 ": %s, a split in the list, another --seed, or a\n"
                 "             smaller --validation and --test change that\n",
                 t->set.named_groups ? "group" : "content", t->params->seed,
                 t->set.named_groups ? "more groups" : "more pictures");
    free(counts);
}

static void tell_vectors(const mr_training *t, FILE *stream) {
    const mr_features *features = &t->features;
    mr_print(stream, "  vectors    %zu numbers of %s; ", features->width, t->extraction.stages);
    if (t->vectors)
        mr_print(stream, "from %s: that they are those of %s is taken on trust\n", t->params->vectors,
                 t->extraction.plan->file);
    else if (!features->made)
        mr_print(stream, "all from the cache\n");
    else if (features->made < features->count)
        mr_print(stream, "%zu made in %.1f s, the others from the cache\n", features->made, features->seconds);
    else
        mr_print(stream, "made in %.1f s\n", features->seconds);
}

static void tell_model(const mr_training *t, FILE *stream) {
    const mr_classifier_card *card = mr_classifier_card_of(t->classifier);
    mr_print(stream, "  model      %s", mr_classifier_kind_name(card->kind));
    if (card->tried_count == 1)
        mr_print(stream, ", C %g", card->tried[0].c);
    mr_print(stream, ", fitted in %.1f s\n", t->fit_seconds);
    for (size_t i = 0; card->tried_count > 1 && i < card->tried_count; i++)
        mr_print(stream, "             C %-8g validation log loss %.4f, %d steps%s\n", card->tried[i].c,
                 card->tried[i].validation, card->tried[i].steps, i == card->chosen ? "  <- taken" : "");
}

static void tell_noise(const mr_training *t, FILE *stream) {
    enum { MOST = 3 };
    if (!t->noisy_count)
        return;
    mr_print(stream, "  doubtful   %zu of the pictures to train on %s like another class; check %s labels\n",
             t->noisy_count, t->noisy_count == 1 ? "looks" : "look", t->noisy_count == 1 ? "its" : "their");
    for (size_t i = 0; i < t->noisy_listed && i < MOST; i++) {
        char text[512];
        const size_t at = t->noisy[i].row;
        mr_set_print_picture(&t->set, t->features.row[at], t->features.at_ns[at], text, sizeof text);
        mr_print(stream, "             %s, like \"%s\"\n", text, t->rows.class_names[t->noisy[i].class_near]);
    }
}

void mr_training_tell(const mr_training *t, FILE *stream) {
    tell_data(t, stream);
    tell_vectors(t, stream);
    tell_model(t, stream);
    tell_noise(t, stream);
    if (t->has_test) {
        mr_print(stream, "  test       ");
        mr_judgement_tell(&t->judgement, stream);
    } else {
        mr_print(stream, "  test       no pictures are for testing, so nothing is known of its accuracy\n");
    }
    mr_print(stream, "  written    %s\n", t->params->head);
    if (t->params->onnx) {
        mr_print(stream, "             ");
        mr_exporting_tell(&t->exporting, stream);
    }
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void put_parts(const mr_training *t, yajl_gen json) {
    const size_t classes = t->rows.class_count;
    size_t *counts = count_parts(t);
    if (!counts)
        return;
    MR_JSON_ARRAY(json, "classes")
        for (size_t j = 0; j < classes; j++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "label", t->rows.class_names[j]);
                for (int part = MR_SPLIT_TRAIN; part < MR_SPLITS; part++)
                    mr_json_integer(json, mr_split_name((mr_split)part), (int64_t)counts[j * MR_SPLITS + (size_t)part]);
            }
    free(counts);
}

static void put_split(const mr_training *t, yajl_gen json) {
    const mr_training_params *params = t->params;
    mr_json_text(json, "by", t->set.named_parts == t->set.count ? "list" : t->set.named_groups ? "group" : "content");
    mr_json_integer(json, "seed", (int64_t)params->seed);
    mr_json_exact(json, "validation", params->shares.validation);
    mr_json_exact(json, "test", params->shares.test);
    mr_json_integer(json, "named", (int64_t)t->set.named_parts);
    if (t->vectors)
        mr_json_text(json, "stored_vectors", t->params->vectors);
}

static void put_noise(const mr_training *t, yajl_gen json) {
    mr_json_integer(json, "doubtful", (int64_t)t->noisy_count);
    MR_JSON_ARRAY(json, "doubtful_listed")
        for (size_t i = 0; i < t->noisy_listed; i++)
            MR_JSON_MAP(json, NULL) {
                const size_t at = t->noisy[i].row;
                mr_set_put_picture(&t->set, t->features.row[at], t->features.at_ns[at], "file", "at", json);
                mr_json_text(json, "label", t->rows.class_names[t->noisy[i].class_given]);
                mr_json_text(json, "looks_like", t->rows.class_names[t->noisy[i].class_near]);
                mr_json_exact(json, "share", t->noisy[i].share);
            }
}

static void put_vectors(const mr_training *t, yajl_gen json) {
    MR_JSON_MAP(json, "vectors") {
        mr_json_integer(json, "rows", (int64_t)t->features.count);
        mr_json_integer(json, "width", (int64_t)t->features.width);
        mr_json_text(json, "stages", t->extraction.stages);
        mr_json_text(json, "digest", t->extraction.digest);
        mr_json_text(json, "stored", t->params->vectors);
        mr_json_text(json, "cache", t->vectors ? NULL : t->features.cache.vectors.path);
        mr_json_integer(json, "made", (int64_t)t->features.made);
        mr_json_number(json, "seconds", t->features.seconds);
    }
}

int mr_training_put(const mr_training *t, FILE *stream) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "pipeline", t->extraction.plan->name);
        mr_json_text(json, "data", t->params->data);
        mr_json_integer(json, "files", (int64_t)t->set.count);
        put_parts(t, json);
        MR_JSON_MAP(json, "split")
            put_split(t, json);
        mr_set_put_left_out(&t->set, json);
        mr_near_put(&t->near, &t->set, json);
        put_vectors(t, json);
        mr_json_text(json, "model", mr_classifier_kind_name(t->params->fit.kind));
        mr_json_number(json, "fit_seconds", t->fit_seconds);
        mr_card_put_fit(json, mr_classifier_card_of(t->classifier));
        mr_json_exact(json, "temperature", t->temperature > 0 ? t->temperature : 0.0 / 0.0);
        put_noise(t, json);
        mr_json_key(json, "test");
        if (t->has_test) {
            MR_JSON_MAP(json, NULL)
                mr_judgement_put(&t->judgement, true, json);
        } else {
            yajl_gen_null(json);
        }
        mr_json_text(json, "head", t->params->head);
        if (t->params->onnx)
            mr_exporting_put(&t->exporting, "onnx", json);
    }
    return mr_json_finish(json, stream);
}

/* The text of an object whose members `put` writes. */
static char *text_of(const mr_training *t, void (*put)(const mr_training *t, yajl_gen json)) {
    yajl_gen json = mr_json_create(false);
    const unsigned char *text;
    size_t bytes;
    if (!json)
        return NULL;
    MR_JSON_MAP(json, NULL)
        put(t, json);
    yajl_gen_get_buf(json, &text, &bytes);
    char *made = strndup((const char *)text, bytes);
    yajl_gen_free(json);
    return made;
}

static void put_test(const mr_training *t, yajl_gen json) {
    if (t->temperature > 0)
        mr_json_exact(json, "temperature", t->temperature);
    mr_judgement_put(&t->judgement, false, json);
}

char *mr_training_figures(const mr_training *t) {
    return text_of(t, put_test);
}

char *mr_training_split(const mr_training *t) {
    return text_of(t, put_split);
}
