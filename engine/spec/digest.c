#include "engine/spec/digest.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/sha256.h"
#include "millrace/status.h"

/* Buffers text for the sum, because a tree has thousands of short pieces. */
typedef struct gathering {
    mr_sha256 *sum;
    bool secrets; /* they count, too */
    size_t count;
    uint8_t bytes[4096];
} gathering;

static void pass_on(gathering *to) {
    mr_sha256_add(to->sum, to->bytes, to->count);
    to->count = 0;
}

static void add(gathering *to, const char *text, size_t length) {
    if (length > sizeof to->bytes - to->count)
        pass_on(to);
    if (length > sizeof to->bytes) {
        mr_sha256_add(to->sum, text, length);
        return;
    }
    memcpy(to->bytes + to->count, text, length);
    to->count += length;
}

static void add_text(gathering *to, const char *text) {
    const size_t length = strlen(text);
    char digits[24], *first = digits + sizeof digits;
    *--first = ':';
    for (size_t left = length; left || *first == ':'; left /= 10)
        *--first = (char)('0' + left % 10);
    add(to, first, (size_t)(digits + sizeof digits - first));
    add(to, text, length);
}

/* Such a value may be a secret. */
static bool is_secret(const mr_yaml *node) {
    return node->key && strcmp(node->key, "token") == 0;
}

/* User and password, which were removed from a URL's text. */
static void add_credentials(gathering *to, const mr_yaml *node) {
    if (node->user) {
        add(to, "u", 1);
        add_text(to, node->user);
    }
    if (node->password) {
        add(to, "p", 1);
        add_text(to, node->password);
    }
}

/* Where a run can be looked into does not change what it does: a run may be resumed without that. */
static bool is_beside(const mr_yaml *node, const mr_yaml *child) {
    return !node->key && node->kind == MR_YAML_MAP &&
           (strcmp(child->key, "http") == 0 || strcmp(child->key, "hub") == 0 || strcmp(child->key, "otlp") == 0);
}

static void add_node(gathering *to, const mr_yaml *node) {
    if (mr_yaml_is_null(node) || (is_secret(node) && !to->secrets)) {
        add(to, "n", 1);
        return;
    }
    if (node->kind == MR_YAML_SCALAR) {
        add_text(to, node->text);
        if (to->secrets)
            add_credentials(to, node);
        return;
    }
    add(to, node->kind == MR_YAML_MAP ? "d" : "l", 1);
    for (const mr_yaml *child = node->first; child; child = child->next) {
        if (is_beside(node, child))
            continue;
        if (node->kind == MR_YAML_MAP)
            add_text(to, child->key);
        add_node(to, child);
    }
    add(to, "e", 1);
}

static int digest_of(const mr_yaml *root, bool secrets, char text[MR_SHA256_TEXT]) {
    gathering all = {.secrets = secrets};
    int status = mr_sha256_begin(&all.sum);
    if (status)
        return status;
    add_node(&all, root);
    pass_on(&all);
    mr_sha256_finish(&all.sum, text);
    return MR_OK;
}

int mr_yaml_digest(const mr_yaml *root, char text[MR_DIGEST_TEXT]) {
    return digest_of(root, false, text);
}

int mr_yaml_digest_with_secrets(const mr_yaml *root, char text[MR_DIGEST_TEXT]) {
    return digest_of(root, true, text);
}
