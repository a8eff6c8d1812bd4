/* Any bytes as a classifier card, a signature, and a network to which a classifier is joined. Nothing may crash, every
 * refusal must have a reason, and the joined model must be ONNX. The first byte chooses.
 *
 *     tests/fuzz/run 60 fuzz_head */
#include <stdio.h>
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
#include "tests/fuzz/fuzz.h"

enum { WIDTH = 3, CLASSES = 2, PATH = 600 };
static mr_classifier *good; /* the classifier of the fuzz_folder(), under a card that fits */

/* All other files are valid, so that a card with the right digests is read to the end. */
static void make_folder(void) {
    static float weights[CLASSES * (WIDTH + 1)] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char key[] = "-----BEGIN PUBLIC KEY-----\n"
                              "MCowBQYDK2VwAyEATNGAQF8nUYLw6IZ9bPEH8CnmrOfoqzAEduj4VIufER8=\n"
                              "-----END PUBLIC KEY-----\n";
    char card[512], labels[MR_SHA256_TEXT], digest[MR_SHA256_TEXT];
    fault_if(mr_sha256_file(fuzz_file("labels.txt", "a\nb\n", 4), labels));
    fault_if(mr_npy_write(fuzz_path("weights.npy"), &(mr_matrix_f32){CLASSES, WIDTH + 1, weights}) ||
             mr_sha256_file(fuzz_path("weights.npy"), digest));
    fuzz_file("head.pub", key, sizeof key - 1);
    int length = snprintf(card, sizeof card,
                          "{\"format\":1,\"kind\":\"softmax\",\"width\":3,\"classes\":2,\"files\":"
                          "{\"labels.txt\":\"%s\",\"weights.npy\":\"%s\"}}", labels, digest);
    fuzz_file("head.json", card, (size_t)length);
    fault_if(mr_classifier_open(&good, fuzz_folder()));
}

static void open_card(const uint8_t *data, size_t bytes) {
    const float vector[WIDTH] = {1, 2, 3};
    mr_classifier *classifier;
    fuzz_file("head.json", data, bytes);
    int status = mr_classifier_open(&classifier, fuzz_folder());
    fuzz_expect_reason(status);
    if (status)
        return;
    const mr_classifier_card *card = mr_classifier_card_of(classifier);
    float *scores = calloc(card->class_count, sizeof *scores);
    fault_if(!scores || card->width != WIDTH || card->class_count != CLASSES || !card->figures || !card->stages);
    fuzz_expect_reason(mr_classifier_scores(classifier, vector, 1, 0, scores));
    for (size_t i = 0; i < card->tried_count; i++)
        fault_if(!card->tried[i].end || card->tried[i].steps < 0);
    for (size_t i = 0; i < card->warning_count; i++)
        fault_if(!card->warnings[i]);
    free(scores);
    mr_classifier_destroy(&classifier);
}

static void look_at_signature(const uint8_t *data, size_t bytes) {
    mr_signature signature;
    fuzz_file("head.sig", data, bytes);
    fuzz_expect_reason(mr_signature_read(fuzz_folder(), &signature));
    mr_classifier *classifier;
    /* Nobody has the private key. */
    fault_if(!mr_classifier_open_signed(&classifier, fuzz_folder(), fuzz_path("head.pub")));
    fuzz_file("head.pub", data, bytes);
    fuzz_expect_reason(mr_signature_read(fuzz_folder(), &signature));
    fault_if(signature.state == MR_SIGNATURE_GOOD);
}

static void join(const uint8_t *data, size_t bytes) {
    char network[PATH];
    mr_onnx_facts facts;
    mr_file_bytes made;
    snprintf(network, sizeof network, "%s", fuzz_file("network.onnx", data, bytes));
    const mr_onnx_params params = {.network = network, .average = bytes % 2, .normalize = bytes % 3};
    int status = mr_classifier_write_onnx(good, fuzz_path("x.onnx"), &params);
    fuzz_expect_reason(status);
    if (status)
        return;
    fault_if(mr_file_read("the model", fuzz_path("x.onnx"), INT32_MAX, 0, &made) ||
             mr_onnx_scan(made.data, made.bytes, "scores", &facts));
    mr_free(made.data);
}

FUZZ(data, bytes) {
    if (!good)
        make_folder();
    if (bytes == 0)
        return;
    if (data[0] % 4 == 0)
        join(data + 1, bytes - 1);
    else if (data[0] % 4 == 1)
        look_at_signature(data + 1, bytes - 1);
    else
        open_card(data + 1, bytes - 1);
}
