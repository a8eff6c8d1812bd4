/* millrace inspect HEAD: prints a classifier's card as text or JSON. Checks the files as `classify` does. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "millrace/classifier.h"
#include "millrace/signature.h"
#include "tools/millrace/cli/card.h"
#include "tools/millrace/inspect/inspect_file.h"

enum { NAMED = 8 };

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void put_shape(yajl_gen json, const mr_classifier_card *card) {
    mr_json_text(json, "classifier", mr_classifier_kind_name(card->kind));
    mr_json_integer(json, "features", (int64_t)card->width);
    MR_JSON_ARRAY(json, "classes")
        for (size_t i = 0; i < card->class_count; i++)
            mr_json_text(json, NULL, card->class_names[i]);
    if (card->layer_count)
        MR_JSON_ARRAY(json, "units")
            for (size_t i = 0; i < card->layer_count; i++)
                mr_json_integer(json, NULL, (int64_t)card->units[i]);
    if (card->k) {
        mr_json_integer(json, "k", (int64_t)card->k);
        mr_json_integer(json, "vectors", (int64_t)card->vectors);
    }
}

static void put_fit(yajl_gen json, const mr_classifier_card *card) {
    mr_json_bool(json, "doubles", card->doubles);
    mr_json_bool(json, "balanced", card->balanced);
    mr_json_bool(json, "standardised", card->standardised);
    char seed[24]; /* an int64_t has too few bits */
    int digits = snprintf(seed, sizeof seed, "%" PRIu64, card->seed);
    mr_json_key(json, "seed");
    yajl_gen_number(json, seed, (size_t)digits);
    MR_JSON_MAP(json, "rows") {
        mr_json_integer(json, "train", (int64_t)card->train_rows);
        mr_json_integer(json, "validation", (int64_t)card->validation_rows);
        mr_json_integer(json, "test", (int64_t)card->test_rows);
    }
    mr_json_integer(json, "constant_features", (int64_t)card->constant_features);
    mr_card_put_fit(json, card);
}

const char *const mr_inspect_signatures[] = {"none", "good", "bad"};

static void put_card(yajl_gen json, const char *path, const mr_classifier_card *card, const mr_signature *signature) {
    const char *const names[] = {"version", "pipeline", "digest", "stages", "tensor", "split"};
    const char *const texts[] = {card->version, card->pipeline, card->digest, card->stages, card->tensor, card->split};
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", path);
        mr_json_text(json, "kind", "head");
        put_shape(json, card);
        put_fit(json, card);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            mr_json_text(json, names[i], *texts[i] ? texts[i] : NULL);
        mr_json_key(json, "figures");
        if (*card->figures) /* JSON already */
            yajl_gen_number(json, card->figures, strlen(card->figures));
        else
            yajl_gen_null(json);
        mr_json_text(json, "signature", mr_inspect_signatures[signature->state]);
        mr_json_text(json, "signed_with", *signature->key ? signature->key : NULL);
    }
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void print_classes(const mr_classifier_card *card) {
    printf("  classes        %zu:", card->class_count);
    for (size_t i = 0; i < card->class_count && i < NAMED; i++)
        mr_print(stdout, "%s %s", i ? "," : "", card->class_names[i]);
    if (card->class_count > NAMED)
        printf(" and %zu more", card->class_count - NAMED);
    printf("\n");
}

static void print_kind(const mr_classifier_card *card) {
    printf("  kind           %s", mr_classifier_kind_name(card->kind));
    for (size_t i = 0; i < card->layer_count; i++)
        printf("%s%zu", i ? "-" : ", units ", card->units[i]);
    if (card->k)
        printf(", the %zu nearest of %zu vectors", card->k, card->vectors);
    printf("\n  features       %zu%s", card->width, card->standardised ? ", standardised" : "");
    if (card->constant_features)
        printf(", of which %zu %s constant", card->constant_features, card->constant_features > 1 ? "are" : "is");
    printf("\n");
}

/* mr_fit_tried.end in words. */
static const char *why_ended(const char *end) {
    static const char *const why[][2] = {{"gradient", "it is at its minimum"},
                                         {"progress", "it hardly fell any more"},
                                         {"precision", "no step made it smaller"},
                                         {"steps", "as many steps as were allowed"},
                                         {"patience", "several epochs were no better on validation"}};
    for (size_t i = 0; i < sizeof why / sizeof *why; i++)
        if (strcmp(end, why[i][0]) == 0)
            return why[i][1];
    return end;
}

static void print_fit(const mr_classifier_card *card) {
    printf("  rows           %" PRIu64 " for training, %" PRIu64 " for validation, %" PRIu64 " for the test%s\n",
           card->train_rows, card->validation_rows, card->test_rows, card->balanced ? "; classes balanced" : "");
    for (size_t i = 0; i < card->tried_count; i++) {
        const mr_fit_tried *tried = &card->tried[i];
        printf("  %-14s C = %g: objective %.6g after %d steps", i ? "" : "penalties", tried->c, tried->objective,
               tried->steps);
        mr_print(stdout, *tried->end ? " (%s)" : "%s", why_ended(tried->end));
        if (!isnan(tried->validation))
            printf(", log loss of validation %.6g", tried->validation);
        printf("%s\n", i == card->chosen && card->tried_count > 1 ? "  <- taken" : "");
    }
    for (size_t i = 0; i < card->warning_count; i++)
        mr_print(stdout, "  warning        %s\n", card->warnings[i]);
}

/* Texts with several lines are indented. */
static void print_lines(const char *title, const char *text) {
    for (bool first = true; *text; first = false) {
        int length = (int)strcspn(text, "\n");
        mr_print(stdout, "  %-14s %.*s\n", first ? title : "", length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_number(const char *digits) {
    const bool whole = strspn(digits, "-0123456789") == strlen(digits);
    mr_print(stdout, "%s", whole ? digits : "");
    if (!whole)
        printf("%.4g", strtod(digits, NULL));
}

/* "accuracy 0.9794 (0.9684 to 0.9890)": the object may contain the interval. */
static void print_member(yajl_val of, size_t i) {
    const char *key = of->u.object.keys[i], *path[] = {"intervals", key, NULL};
    const yajl_val value = of->u.object.values[i], range = yajl_tree_get(of, path, yajl_t_array);
    mr_print(stdout, "%-20.60s ", key);
    if (YAJL_IS_NUMBER(value))
        print_number(YAJL_GET_NUMBER(value));
    else
        mr_print(stdout, "%s", YAJL_IS_STRING(value) ? YAJL_GET_STRING(value) : YAJL_IS_TRUE(value) ? "true" : "-");
    if (range && range->u.array.len == 2 && YAJL_IS_NUMBER(range->u.array.values[0]) &&
        YAJL_IS_NUMBER(range->u.array.values[1])) {
        printf(" (95%%: ");
        print_number(YAJL_GET_NUMBER(range->u.array.values[0]));
        printf(" to ");
        print_number(YAJL_GET_NUMBER(range->u.array.values[1]));
        printf(")");
    }
    printf("\n");
}

/* Prints an object from `train` with one member per line, and any other text unchanged. */
static void print_members(const char *title, const char *text) {
    yajl_val value = mr_json_parse(text, NULL, 0);
    bool first = true;
    if (!YAJL_IS_OBJECT(value))
        print_lines(title, text);
    for (size_t i = 0; YAJL_IS_OBJECT(value) && i < value->u.object.len; i++) {
        if (strcmp(value->u.object.keys[i], "intervals") == 0)
            continue;
        printf("  %-14s ", first ? title : "");
        print_member(value, i);
        first = false;
    }
    yajl_tree_free(value);
}

void mr_inspect_print_signature(const mr_signature *signature, const char *of) {
    if (signature->state == MR_SIGNATURE_GOOD)
        printf("  signature      good, with the key %s\n", signature->key);
    else if (signature->state == MR_SIGNATURE_BAD)
        printf("  signature      BAD: %s is not as it was signed%s%s\n", of, *signature->key ? " with the key " : "",
               signature->key);
    else
        printf("  signature      none\n");
}

static void print_card(const char *path, const mr_classifier_card *card, const mr_signature *signature) {
    mr_print(stdout, "%s (classifier, trained by millrace %s)\n\n", path, card->version);
    print_kind(card);
    print_classes(card);
    print_fit(card);
    print_members("split", card->split);
    print_lines("pipeline", card->pipeline);
    print_lines("stages", card->stages);
    print_lines("digest", card->digest);
    print_lines("tensor", card->tensor);
    print_members("test", card->figures);
    mr_inspect_print_signature(signature, "head.json");
    printf("\nstages that can use it\n  %-16s head: ", "classify");
    mr_print(stdout, "%s\n", path);
}

int mr_inspect_head(const char *path, yajl_gen json) {
    mr_classifier *classifier;
    mr_signature signature;
    int status = mr_classifier_open(&classifier, path);
    if (!status)
        status = mr_signature_read(path, &signature);
    if (!status && json)
        put_card(json, path, mr_classifier_card_of(classifier), &signature);
    else if (!status)
        print_card(path, mr_classifier_card_of(classifier), &signature);
    mr_classifier_destroy(&classifier);
    return status;
}
