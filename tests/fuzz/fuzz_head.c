/* Any bytes as the card of a classifier, as its signature, and as a network that a classifier is joined to. Nothing may
 * crash, what is refused is refused with a reason, and what is joined is an ONNX model. The first byte chooses.
 *
 *     tests/fuzz/run 60 fuzz_head */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "millrace/onnx.h"
#include "millrace/signature.h"
#include "millrace/status.h"
#include "stages/model/npy.h"
#include "stages/model/onnx/onnx_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { WIDTH = 3, CLASSES = 2, PATH = 128 };
static char folder[PATH / 2], path[PATH];
static mr_classifier *good; /* the classifier of the folder, under a card that fits */

static void expect_reason(int status) {
    if (status != MR_OK && !*mr_message())
        abort();
}

static void write_file(const char *name, const void *data, size_t bytes) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        abort();
}

static void remove_folder(void) {
    static const char *const names[] = {"head.json", "labels.txt", "weights.npy", "head.sig", "head.pub", "x.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The other files of the folder are as they should be, so that cards with their digests are read to the end. */
static void make_folder(void) {
    static float weights[CLASSES * (WIDTH + 1)] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char key[] = "-----BEGIN PUBLIC KEY-----\n"
                              "MCowBQYDK2VwAyEATNGAQF8nUYLw6IZ9bPEH8CnmrOfoqzAEduj4VIufER8=\n"
                              "-----END PUBLIC KEY-----\n";
    char card[512], labels[MR_SHA256_TEXT], digest[MR_SHA256_TEXT];
    snprintf(folder, sizeof folder, "/dev/shm/fuzz-head-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    write_file("labels.txt", "a\nb\n", 4);
    mr_sha256_file(path, labels);
    snprintf(path, sizeof path, "%s/weights.npy", folder);
    if (mr_npy_write(path, &(mr_matrix_f32){CLASSES, WIDTH + 1, weights}) || mr_sha256_file(path, digest))
        abort();
    write_file("head.pub", key, sizeof key - 1);
    int length = snprintf(card, sizeof card,
                          "{\"format\":1,\"kind\":\"softmax\",\"width\":3,\"classes\":2,\"files\":"
                          "{\"labels.txt\":\"%s\",\"weights.npy\":\"%s\"}}", labels, digest);
    write_file("head.json", card, (size_t)length);
    if (mr_classifier_open(&good, folder))
        abort();
}

static void open_card(const uint8_t *data, size_t bytes) {
    const float vector[WIDTH] = {1, 2, 3};
    mr_classifier *classifier;
    write_file("head.json", data, bytes);
    int status = mr_classifier_open(&classifier, folder);
    expect_reason(status);
    if (status)
        return;
    const mr_classifier_card *card = mr_classifier_card_of(classifier);
    float *scores = calloc(card->class_count, sizeof *scores);
    if (!scores || card->width != WIDTH || card->class_count != CLASSES || !card->figures || !card->stages)
        abort();
    expect_reason(mr_classifier_scores(classifier, vector, 1, 0, scores));
    for (size_t i = 0; i < card->tried_count; i++)
        if (!card->tried[i].end || card->tried[i].steps < 0)
            abort();
    for (size_t i = 0; i < card->warning_count; i++)
        if (!card->warnings[i])
            abort();
    free(scores);
    mr_classifier_destroy(&classifier);
}

static void look_at_signature(const uint8_t *data, size_t bytes) {
    mr_signature signature;
    write_file("head.sig", data, bytes);
    expect_reason(mr_signature_read(folder, &signature));
    snprintf(path, sizeof path, "%s/head.pub", folder);
    mr_classifier *classifier;
    if (!mr_classifier_open_signed(&classifier, folder, path))
        abort(); /* the key's other half is nowhere */
    write_file("head.pub", data, bytes);
    expect_reason(mr_signature_read(folder, &signature));
    if (signature.state == MR_SIGNATURE_GOOD)
        abort();
}

static void join(const uint8_t *data, size_t bytes) {
    mr_onnx_facts facts;
    mr_file_bytes made;
    snprintf(path, sizeof path, "%s/x.onnx", folder);
    char network[PATH];
    snprintf(network, sizeof network, "%s/network.onnx", folder);
    FILE *file = fopen(network, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        abort();
    const mr_onnx_params params = {.network = network, .average = bytes % 2, .normalize = bytes % 3};
    int status = mr_classifier_write_onnx(good, path, &params);
    expect_reason(status);
    unlink(network);
    if (status)
        return;
    snprintf(path, sizeof path, "%s/x.onnx", folder);
    if (mr_file_read("the model", path, INT32_MAX, 0, &made) || mr_onnx_scan(made.data, made.bytes, "scores", &facts))
        abort();
    mr_free(made.data);
}

/* libFuzzer's own name for what it calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (!good)
        make_folder();
    if (bytes == 0)
        return 0;
    if (data[0] % 4 == 0)
        join(data + 1, bytes - 1);
    else if (data[0] % 4 == 1)
        look_at_signature(data + 1, bytes - 1);
    else
        open_card(data + 1, bytes - 1);
    return 0;
}
