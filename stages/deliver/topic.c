#include "stages/deliver/topic.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"

static const char *const words[] = {"pipeline", "stage", "source", "class", NULL};
enum { CONTROL_1 = 0x80, CONTROL_1_END = 0xA0 };

/* The length of a word in braces at the beginning; 0: there is none. *word is its number, -1: it is unknown. */
static size_t find_word(const char *text, int *word) {
    const size_t length = *text == '{' ? strcspn(text + 1, "{}/") : 0;
    *word = -1;
    if (!length || text[length + 1] != '}')
        return 0;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == length && strncmp(words[i], text + 1, length) == 0)
            *word = i;
    return length + 2;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

typedef struct writer {
    char *to;
    size_t room, length;
} writer;

static void add(writer *at, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, at->length++)
        if (at->length + 1 < at->room)
            at->to[at->length] = text[i];
}

/* Whether a character can be in a level as it is. `bytes`: 0 if it is not UTF-8. A $ at the start of a topic is for
 * brokers themselves. */
static bool is_plain(const writer *at, const char *text, size_t bytes) {
    const uint32_t code = bytes ? mr_utf8_code(text, bytes) : CONTROL_1;
    const bool control = code < ' ' || code == 0x7F || (code >= CONTROL_1 && code < CONTROL_1_END);
    const bool other = (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE;
    return !control && !other && !(code < 0x80 && strchr("/+#%", (int)code)) && !(code == '$' && at->length == 0);
}

static void add_level(writer *at, const char *value) {
    char escaped[4];
    for (size_t left = strlen(value); left;) {
        const size_t bytes = mr_utf8_bytes(value, left), whole = bytes ? bytes : 1;
        if (is_plain(at, value, bytes))
            add(at, value, bytes);
        else
            for (size_t i = 0; i < whole; i++)
                add(at, escaped, (size_t)snprintf(escaped, sizeof escaped, "%%%02X", (unsigned char)value[i]));
        value += whole;
        left -= whole;
    }
}

size_t mr_topic_make(char *topic, size_t room, const char *template, const mr_topic_values *values) {
    const char *const of[] = {values->pipeline, values->stage, values->source, values->class ? values->class : "none"};
    writer at = {.to = topic, .room = room};
    int word;
    for (size_t length; *template; template += length) {
        length = find_word(template, &word);
        if (length && word >= 0)
            add_level(&at, of[word]);
        else
            add(&at, template, length = 1);
    }
    topic[at.length < room ? at.length : room - 1] = 0;
    return at.length;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

int mr_topic_check(mr_negotiation *n, const char *option, const char *template) {
    int word;
    if (!template)
        return MR_OK;
    if (!*template)
        return mr_refuse(n, option, "a topic must not be empty");
    for (size_t length, left = strlen(template); left; template += length, left -= length) {
        length = find_word(template, &word);
        if (length && word < 0)
            return mr_refuse(n, option, "there is no %.*s; there are {pipeline}, {stage}, {source} and {class}",
                             (int)length, template);
        if (length)
            continue;
        length = mr_utf8_bytes(template, left);
        if (*template == '+' || *template == '#')
            return mr_refuse(n, option, "%c is a wildcard, which only subscriptions may have", *template);
        if (!length || (unsigned char)*template < ' ')
            return mr_refuse(n, option, "a topic must be UTF-8 without control characters");
    }
    return MR_OK;
}
