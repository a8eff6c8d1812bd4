/* Variables in a tree's scalars (yaml.h). */
#include <stdlib.h>
#include <string.h>

#include "engine/text/yaml.h"
#include "millrace/status.h"

enum { MAX_NESTING = 8 };

/* Text that grows; `failed` once memory was short or an error was diagnosed. */
typedef struct expansion {
    mr_diagnostics *diagnostics;
    mr_location place;
    char *text;
    size_t length, capacity;
    const char *unset; /* the first variable whose default was taken */
    size_t unset_length;
    int status;
} expansion;

static void append(expansion *e, const char *text, size_t length) {
    if (e->status)
        return;
    if (e->length + length > MR_YAML_MAX_BYTES) {
        e->status = mr_diagnose(e->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, e->place, NULL,
                                "with its variables expanded this text is longer than %d bytes", MR_YAML_MAX_BYTES);
        return;
    }
    if (e->length + length + 1 > e->capacity) {
        size_t capacity = 2 * (e->length + length) + 64;
        char *wider = realloc(e->text, capacity);
        if (!wider) {
            e->status = mr_fail(MR_ERROR_MEMORY, "no memory for %zu bytes of text", capacity);
            return;
        }
        e->text = wider;
        e->capacity = capacity;
    }
    memcpy(e->text + e->length, text, length);
    e->length += length;
    e->text[e->length] = 0;
}

static void refuse(expansion *e, const char *hint, const char *message, const char *name, size_t length) {
    if (!e->status)
        e->status = mr_diagnose(e->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, e->place, hint, message,
                                (int)length, name);
}

static bool name_char(char c, bool first) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static size_t name_length(const char *text) {
    size_t length = 0;
    while (name_char(text[length], length == 0))
        length++;
    return length;
}

static const char *expand_text(expansion *e, const char *at, bool inside, bool silent, int nesting);

static const char *value_of(const char *name, size_t length) {
    char key[256];
    if (length >= sizeof key)
        return NULL;
    memcpy(key, name, length);
    key[length] = 0;
    return getenv(key);
}

/* The bytes before the closing brace: pairs of braces are text, as in "rows-{time}.jsonl". */
static size_t before_brace(const char *text) {
    size_t length = 0;
    for (int open = 0; text[length] && (text[length] != '}' || open > 0); length++)
        open += (text[length] == '{') - (text[length] == '}');
    return length;
}

/* The message in ${VAR:?message}: up to the closing brace. */
static const char *complain(expansion *e, const char *name, size_t length, const char *at, bool silent) {
    size_t message = before_brace(at);
    if (!silent && !e->status) {
        char hint[300];
        snprintf(hint, sizeof hint, "set it in the environment: %.*s=...", (int)length, name);
        e->status = message > 0
                        ? mr_diagnose(e->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, e->place, hint,
                                      "the variable %.*s is not set: %.*s", (int)length, name, (int)message, at)
                        : mr_diagnose(e->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, e->place, hint,
                                      "the variable %.*s is not set", (int)length, name);
    }
    return at + message;
}

/* After "${": returns the text after "}". `silent`: only that, not the value. */
static const char *expand_variable(expansion *e, const char *at, bool silent, int nesting) {
    const char *name = at;
    size_t length = name_length(at);
    at += length;
    const char *value = value_of(name, length);
    bool given = value && *value;
    if (length == 0) {
        refuse(e, "write ${NAME}, or $$ for a dollar", "a name is missing after \"${\"%.*s", "", 0);
        return at + strlen(at);
    }
    if (*at == '}') {
        if (!value && !silent)
            complain(e, name, length, "", false);
        if (value && !silent)
            append(e, value, strlen(value));
    } else if (at[0] == ':' && at[1] == '-') {
        if (given && !silent)
            append(e, value, strlen(value));
        if (!given && !silent && !e->unset) {
            e->unset = name;
            e->unset_length = length;
        }
        at = expand_text(e, at + 2, true, silent || given, nesting + 1);
    } else if (at[0] == ':' && at[1] == '?') {
        if (given && !silent)
            append(e, value, strlen(value));
        at = complain(e, name, length, at + 2, silent || given);
    } else if (*at) {
        refuse(e, "write ${NAME}, ${NAME:-default} or ${NAME:?message}", "\"${%.*s\" is followed by an unexpected "
                                                                         "character", name, length);
        return at + strlen(at);
    }
    if (*at == '}')
        return at + 1;
    refuse(e, "write ${NAME}, or $$ for a dollar", "\"${%.*s\" is not closed by a brace", name, length);
    return at + strlen(at);
}

/* Expands up to the text's end, or, `inside` a variable's default, up to the closing brace. Pairs of braces in a
 * default are text. */
static const char *expand_text(expansion *e, const char *at, bool inside, bool silent, int nesting) {
    if (nesting > MAX_NESTING) {
        refuse(e, NULL, "defaults of variables are nested too deep%.*s", "", 0);
        return at + strlen(at);
    }
    for (int open = 0; *at && !e->status && !(inside && *at == '}' && open == 0);) {
        size_t plain = strcspn(at, inside ? "${}" : "$");
        if (!plain && *at != '$') {
            open += *at == '{' ? 1 : -1;
            plain = 1;
        }
        if (!silent)
            append(e, at, plain);
        at += plain;
        if (plain)
            continue;
        if (at[1] == '{') {
            at = expand_variable(e, at + 2, silent, nesting);
        } else {
            if (!silent)
                append(e, "$", 1);
            at += at[1] == '$' ? 2 : 1;
        }
    }
    return at;
}

static int expand_scalar(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics) {
    expansion e = {.diagnostics = diagnostics, .place = node->place};
    append(&e, "", 0);
    expand_text(&e, node->text, false, false, 0);
    if (!e.status) {
        const char *text = mr_arena_text(arena, e.text, e.length);
        const char *unset = e.unset ? mr_arena_text(arena, e.unset, e.unset_length) : NULL;
        if (text && (unset || !e.unset)) {
            node->text = text;
            node->unset = unset;
        } else {
            e.status = MR_ERROR_MEMORY;
        }
    }
    free(e.text);
    node->expanded = true;
    node->broken = e.status != MR_OK;
    return e.status;
}

int mr_yaml_expand(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics) {
    int status = MR_OK;
    if (node->kind == MR_YAML_SCALAR) {
        if (!node->expanded && strchr(node->text, '$'))
            status = expand_scalar(node, arena, diagnostics);
        return status ? status : mr_yaml_take_credentials(node, arena, diagnostics);
    }
    for (mr_yaml *child = node->first; child && status != MR_ERROR_MEMORY; child = child->next) {
        int answer = mr_yaml_expand(child, arena, diagnostics);
        status = answer ? answer : status;
    }
    return status;
}
