/* Ids for stages, and for sources, which can be made from file names in any language. */
#include "engine/spec/spec_id.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/utf8.h"

enum { MOST_BYTES = 64, MOST_FROM_NAME = 48 };
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

bool mr_spec_id_is_plain(const char *id) {
    return *id && *id != '-' && strspn(id, letters) == strlen(id) && strlen(id) <= MOST_BYTES;
}

/* Spaces, joiners and direction marks beyond ASCII, which are invisible. */
static bool is_blank(uint32_t code) {
    return code == 0xa0 || code == 0xad || code == 0x1680 || (code >= 0x2000 && code <= 0x200f) || code == 0x202f ||
           (code >= 0x205f && code <= 0x206f) || code == 0x3000 || code == 0xfeff;
}

/* How many bytes the character at `at` has, if a source id can have it; else 0. */
static size_t character(const char *at) {
    char alone[8] = {0};
    size_t bytes = mr_utf8_bytes(at, strlen(at));
    if (bytes == 1)
        return strchr(letters, *at) != NULL;
    memcpy(alone, at, bytes);
    return bytes && mr_printable(alone) && !is_blank(mr_utf8_code(at, bytes)) ? bytes : 0;
}

bool mr_spec_source_id_is_plain(const char *id) {
    size_t bytes = strlen(id), at = 0;
    for (size_t next; at < bytes && (next = character(id + at)); at += next)
        ;
    return bytes > 0 && *id != '-' && at == bytes && bytes <= MOST_BYTES;
}

/* Where a file name ends without the extension; a leading dot belongs to the name. */
static size_t end_of_stem(const char *name, size_t bytes) {
    size_t stem = 0;
    for (size_t i = 1; i < bytes; i++)
        stem = name[i] == '.' ? i : stem;
    return stem ? stem : bytes;
}

const char *mr_spec_source_id_from(mr_arena *arena, const char *input) {
    size_t end = strlen(input), begin, length = 0;
    while (end > 0 && input[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && input[begin - 1] != '/';)
        begin--;
    char *name = mr_arena_text(arena, input + begin, end - begin), *id = mr_arena_alloc(arena, MOST_FROM_NAME + 1);
    if (!name || !id)
        return NULL;
    name[end_of_stem(name, end - begin)] = '\0';
    for (const char *at = name; *at;) {
        size_t bytes = character(at), whole = mr_utf8_bytes(at, strlen(at));
        bool plain = bytes && (*at != '-' || at > name);
        if (length + (plain ? bytes : 1) > MOST_FROM_NAME)
            break;
        memcpy(id + length, plain ? at : "_", plain ? bytes : 1);
        length += plain ? bytes : 1;
        at += whole ? whole : 1;
    }
    id[length] = '\0';
    return length ? id : "input";
}

/* The digits of a UUID mean the same in either case, and drivers print small ones. */
static const char *small_uuid(mr_arena *arena, const char *name) {
    char *small = mr_arena_print(arena, "%s", name);
    for (size_t i = strlen("cuda:GPU-"); small && small[i]; i++)
        small[i] = (char)tolower((unsigned char)small[i]);
    return small;
}

const char *mr_device_full_name(mr_arena *arena, const char *name) {
    if (strncmp(name, "cuda:GPU-", strlen("cuda:GPU-")) == 0 || strncmp(name, "cuda:MIG-", strlen("cuda:MIG-")) == 0)
        return small_uuid(arena, name);
    size_t kind = strcspn(name, ":?");
    bool numbered = name[kind] == ':' || strcmp(name, "cpu") == 0;
    return numbered ? name : mr_arena_print(arena, "%.*s:0%s", (int)kind, name, name + kind);
}
