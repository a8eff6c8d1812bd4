#include "stages/draw/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "millrace/status.h"

/* What tokens are printed from. */
typedef struct subject {
    const mr_result *objects;
    const mr_object *object;
    const char *source;
    const mr_frame *frame;
} subject;

/* Prints a value, or nothing. */
typedef void print_token(char *text, size_t room, const subject *of);
typedef struct token {
    const char *name;
    print_token *print;
} token;

/* ---- of objects -------------------------------------------------------------------------------------------------- */

static void print_label(char *text, size_t room, const subject *of) {
    if (of->object->label)
        snprintf(text, room, "%s", of->object->label);
    else
        snprintf(text, room, "%" PRId32, of->object->index);
}

static void print_index(char *text, size_t room, const subject *of) {
    snprintf(text, room, "%" PRId32, of->object->index);
}

static void print_id(char *text, size_t room, int64_t id) {
    if (id)
        snprintf(text, room, "%" PRId64, id);
}

static void print_track(char *text, size_t room, const subject *of) {
    print_id(text, room, of->object->track);
}

static void print_number(char *text, size_t room, const subject *of) {
    print_id(text, room, of->object->number);
}

static void print_score(char *text, size_t room, const subject *of) {
    snprintf(text, room, "%.2f", (double)of->object->score);
}

/* In metres a second. */
static void print_speed(char *text, size_t room, const subject *of) {
    if (of->object->speed > 0)
        snprintf(text, room, "%.1f", (double)of->object->speed);
}

static void print_distance(char *text, size_t room, const subject *of) {
    if (of->object->distance > 0)
        snprintf(text, room, "%.1f", (double)of->object->distance);
}

/* Appends with a comma. */
static void append(char *text, size_t room, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%s", used ? ", " : "", more);
}

static void print_zones(char *text, size_t room, const subject *of) {
    const mr_object_zone *zones = mr_result_items(of->objects, of->object->zones);
    for (uint32_t i = 0; zones && i < of->object->zones.count; i++)
        append(text, room, zones[i].zone ? zones[i].zone : "");
}

/* Labels of attributes, or their texts. */
static void print_attributes(char *text, size_t room, const subject *of, bool texts) {
    const mr_object_attribute *found = mr_result_items(of->objects, of->object->attributes);
    for (uint32_t i = 0; found && i < of->object->attributes.count; i++) {
        const char *read = mr_result_items(of->objects, found[i].text);
        char number[16];
        snprintf(number, sizeof number, "%" PRId32, found[i].index);
        if (texts && read)
            append(text, room, read);
        else if (!texts && !read)
            append(text, room, found[i].label ? found[i].label : number);
    }
}

static void print_classes(char *text, size_t room, const subject *of) {
    print_attributes(text, room, of, false);
}

static void print_text(char *text, size_t room, const subject *of) {
    print_attributes(text, room, of, true);
}

static const token label_tokens[] = {
    {"{label}", print_label}, {"{index}", print_index}, {"{track}", print_track},   {"{number}", print_number},
    {"{score}", print_score}, {"{speed}", print_speed}, {"{distance}", print_distance},
    {"{zones}", print_zones}, {"{class}", print_classes}, {"{text}", print_text},
    {NULL, NULL},
};

/* ---- of frames --------------------------------------------------------------------------------------------------- */

static void print_source(char *text, size_t room, const subject *of) {
    snprintf(text, room, "%s", of->source);
}

static void print_seq(char *text, size_t room, const subject *of) {
    snprintf(text, room, "%" PRIu64, of->frame->identity.seq);
}

/* {utc} and {time}: the day and time of capture. */
static void print_date(char *text, size_t room, const subject *of, bool utc) {
    const time_t seconds = (time_t)(of->frame->captured_ns / 1000000000);
    struct tm parts = {0};
    char date[64] = "";
    if (of->frame->captured_ns <= 0 || !(utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts)))
        return;
    /* Without room, strftime leaves the text undefined. */
    strftime(date, sizeof date, utc ? "%Y-%m-%d %H:%M:%SZ" : "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text, room, "%s", date);
}

static void print_utc(char *text, size_t room, const subject *of) {
    print_date(text, room, of, true);
}

static void print_time(char *text, size_t room, const subject *of) {
    print_date(text, room, of, false);
}

static void print_position(char *text, size_t room, const subject *of) {
    const int64_t ms = of->frame->pts_ns / 1000000, positive = ms < 0 ? -ms : ms;
    if (of->frame->pts_ns != MR_NO_TIME)
        snprintf(text, room, "%s%" PRId64 ":%02d:%02d.%03d", ms < 0 ? "-" : "", positive / 3600000,
                 (int)(positive / 60000 % 60), (int)(positive / 1000 % 60), (int)(positive % 1000));
}

static void print_objects(char *text, size_t room, const subject *of) {
    if (of->objects)
        snprintf(text, room, "%zu", of->objects->count);
}

static const token caption_tokens[] = {
    {"{source}", print_source}, {"{time}", print_time}, {"{utc}", print_utc},
    {"{position}", print_position}, {"{seq}", print_seq}, {"{objects}", print_objects},
    {NULL, NULL},
};

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/* NULL: no token begins here. */
static const token *token_at(const char *text, const token *tokens) {
    for (; tokens->name; tokens++)
        if (strncmp(text, tokens->name, strlen(tokens->name)) == 0)
            return tokens;
    return NULL;
}

static int check(const char *pattern, const token *tokens) {
    char known[256] = "";
    for (const char *at = pattern; *at;) {
        const token *found = token_at(at, tokens);
        if (!found && (*at == '{' || *at == '}')) {
            for (; tokens->name; tokens++)
                append(known, sizeof known, tokens->name);
            return mr_fail(MR_ERROR_CONFIG, "\"%s\" may hold %s, and no other brace", pattern, known);
        }
        at += found ? strlen(found->name) : 1;
    }
    return MR_OK;
}

int mr_words_check_label(const char *pattern) {
    return check(pattern, label_tokens);
}

int mr_words_check_caption(const char *pattern) {
    return check(pattern, caption_tokens);
}

/* Prints the word at `*at`, up to the next space; false: its tokens have no value. */
static bool print_word(char word[MR_WORDS], const char **at, const token *tokens, const subject *of) {
    bool has_tokens = false, has_value = false;
    size_t used = 0;
    for (; **at && **at != ' '; word[used] = '\0') {
        const token *found = token_at(*at, tokens);
        word[used] = '\0';
        if (found) {
            found->print(word + used, MR_WORDS - used, of);
            has_tokens = true;
            has_value |= word[used] != '\0';
            used += strlen(word + used);
        } else if (used < MR_WORDS - 1) {
            word[used++] = **at;
        }
        *at += found ? strlen(found->name) : 1;
    }
    word[used] = '\0';
    return used && (has_value || !has_tokens);
}

static void print(char text[MR_WORDS], const char *pattern, const token *tokens, const subject *of) {
    char word[MR_WORDS];
    size_t used = 0;
    text[0] = '\0';
    for (const char *at = pattern; *at; at += *at == ' ') {
        if (!print_word(word, &at, tokens, of))
            continue;
        snprintf(text + used, MR_WORDS - used, "%s%s", used ? " " : "", word);
        used = strlen(text);
    }
}

void mr_words_of_object(char text[MR_WORDS], const char *pattern, const mr_result *objects, const mr_object *object) {
    print(text, pattern, label_tokens, &(subject){.objects = objects, .object = object});
}

void mr_words_of_frame(char text[MR_WORDS], const char *pattern, const char *source, const mr_frame *frame,
                       const mr_result *objects) {
    print(text, pattern, caption_tokens, &(subject){.objects = objects, .source = source, .frame = frame});
}
