#include "engine/config/digest.h"

#include <libavutil/mem.h>
#include <libavutil/sha.h>
#include <stdio.h>
#include <string.h>

#include "millrace/status.h"

enum { BITS = 256, BYTES = BITS / 8 };

static void add(struct AVSHA *sum, const char *text) {
    av_sha_update(sum, (const uint8_t *)text, strlen(text));
}

static void add_text(struct AVSHA *sum, const char *text) {
    char length[32];
    snprintf(length, sizeof length, "%zu:", strlen(text));
    add(sum, length);
    add(sum, text);
}

static void add_node(struct AVSHA *sum, const mr_yaml *node) {
    if (mr_yaml_is_null(node)) {
        add(sum, "n");
        return;
    }
    if (node->kind == MR_YAML_SCALAR) {
        add_text(sum, node->text);
        return;
    }
    add(sum, node->kind == MR_YAML_MAP ? "d" : "l");
    for (const mr_yaml *child = node->first; child; child = child->next) {
        if (node->kind == MR_YAML_MAP)
            add_text(sum, child->key);
        add_node(sum, child);
    }
    add(sum, "e");
}

int mr_yaml_digest(const mr_yaml *root, char text[MR_DIGEST_TEXT]) {
    uint8_t digest[BYTES];
    struct AVSHA *sum = av_sha_alloc();
    if (!sum || av_sha_init(sum, BITS)) {
        av_free(sum);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the digest of a pipeline");
    }
    add_node(sum, root);
    av_sha_final(sum, digest);
    av_free(sum);
    for (size_t i = 0; i < BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return MR_OK;
}
