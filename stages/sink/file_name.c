#include "stages/sink/file_name.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/nearest.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

enum { LABEL_BYTES = 100 };
enum { SOURCE, NUMBER, TIME, EPOCH, SEQ, SUB, LABEL, TRACK, STEM, TOKENS };
static const char *const tokens[] = {"{source}", "{number}", "{time}", "{epoch}", "{seq}", "{sub}", "{label}",
                                     "{track}", "{stem}"};
static const char time_digits[] = "00000000T000000Z";

typedef unsigned token_set;
static const token_set OF_FILES = 1U << SOURCE | 1U << NUMBER | 1U << TIME;
static const token_set OF_PICTURES = 1U << SOURCE | 1U << TIME | 1U << EPOCH | 1U << SEQ | 1U << SUB |
                                    1U << LABEL | 1U << TRACK | 1U << STEM;

/* The token from the set at the start of the text; TOKENS if none. */
static int token_at(const char *text, token_set set) {
    int token = 0;
    while (token < TOKENS && (!(set >> token & 1) || strncmp(text, tokens[token], strlen(tokens[token])) != 0))
        token++;
    return token;
}

/* Skips the token, or a single character. */
static const char *next_of(const char *at, int token) {
    return at + (token < TOKENS ? strlen(tokens[token]) : 1);
}

const char *mr_file_name_ending(const char *name) {
    const char *point = strrchr(name, '.');
    return point ? point : "";
}

/* {number} takes all digits it meets. Next to another value's digits, files for two sources or two numbers could get
 * the same name. */
static bool runs_together(const char *pattern, const char *number) {
    const char *after = number + strlen(tokens[NUMBER]), *before = number;
    while (before > pattern && isdigit((unsigned char)before[-1]))
        before--;
    return token_at(after, OF_FILES) < TOKENS || isdigit((unsigned char)*after) ||
           (before > pattern && before[-1] == '}');
}

/* "; did you mean {time}?" for the first braces that hold no token of the set, or "". */
static const char *meant(const char *text, token_set set, char said[64]) {
    char word[32];
    int token;
    said[0] = 0;
    for (; *text && (*text != '{' || token_at(text, set) < TOKENS); text = next_of(text, token))
        token = token_at(text, set);
    const char *close = strchr(text, '}');
    if (!close || (size_t)(close - text) >= sizeof word)
        return said;
    snprintf(word, sizeof word, "%.*s", (int)(close - text + 1), text);
    mr_nearest nearest = {.wanted = word};
    for (token = 0; token < TOKENS; token++)
        if (set >> token & 1)
            mr_nearest_offer(&nearest, tokens[token]);
    if (nearest.best)
        snprintf(said, 64, "; did you mean %s?", nearest.best);
    return said;
}

/* Whether each brace belongs to a token of the set. */
static bool is_pattern(const char *text, token_set set) {
    for (int token; *text; text = next_of(text, token)) {
        token = token_at(text, set);
        if (token == TOKENS && (*text == '{' || *text == '}'))
            return false;
    }
    return true;
}

/* Whether each folder in the name is a name of its own: not empty, and not "." or "..". */
static bool has_folders_inside(const char *pattern) {
    for (const char *slash; (slash = strchr(pattern, '/')); pattern = slash + 1)
        if (slash == pattern || *pattern == '.')
            return false;
    return true;
}

int mr_file_name_check(const char *pattern) {
    char said[64];
    const char *number = strstr(pattern, tokens[NUMBER]);
    if (strchr(pattern, '/') || !is_pattern(pattern, OF_FILES))
        return mr_fail(MR_ERROR_CONFIG, "name may hold {source}, {number} and {time}, and no slash: \"%s\"%s", pattern,
                       meant(pattern, OF_FILES, said));
    for (; number; number = strstr(number + 1, tokens[NUMBER]))
        if (runs_together(pattern, number))
            return mr_fail(MR_ERROR_CONFIG, "the digits of {number} would run into those beside it: write a sign that "
                           "is no digit between them, such as {source}-{number}%s", mr_file_name_ending(pattern));
    return MR_OK;
}

int mr_picture_name_check(const char *pattern) {
    char said[64];
    if (!has_folders_inside(pattern))
        return mr_fail(MR_ERROR_CONFIG, "a folder in name must have a name that does not begin with a point: \"%s\"",
                       pattern);
    if (is_pattern(pattern, OF_PICTURES) && strstr(pattern, tokens[SEQ]))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "name must hold {seq}, and may hold {source}, {stem}, {time}, {epoch}, {sub}, "
                   "{label} and {track}, as in \"{source}-{seq}.jpg\", found \"%s\"%s", pattern,
                   meant(pattern, OF_PICTURES, said));
}

bool mr_picture_name_has_track(const char *pattern) {
    return strstr(pattern, tokens[TRACK]);
}

bool mr_picture_name_has_label(const char *pattern) {
    return strstr(pattern, tokens[LABEL]);
}

bool mr_file_name_counts(const char *pattern) {
    return strstr(pattern, tokens[NUMBER]);
}

bool mr_file_name_differs(const char *pattern) {
    return mr_file_name_counts(pattern) || strstr(pattern, tokens[TIME]);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

typedef struct values {
    const char *source, *file;
    uint64_t number; /* file number, or picture number within the epoch */
    int64_t seconds;
    uint32_t epoch, sub;
    bool with_epoch, with_sub; /* {seq} includes them */
    const mr_object *object;   /* NULL: none */
} values;

static int print_time(char *text, size_t room, int64_t seconds) {
    struct tm utc = {0};
    char printed[64] = "";
    time_t at = (time_t)seconds;
    if (gmtime_r(&at, &utc))
        strftime(printed, sizeof printed, "%Y%m%dT%H%M%SZ", &utc);
    return snprintf(text, room, "%s", printed);
}

static int print_source(char *text, size_t room, const char *source) {
    int length = snprintf(text, room, "%s", source);
    for (char *slash = text; room && (slash = strchr(slash, '/'));)
        *slash = '_';
    return length;
}

static int print_number(char *text, size_t room, const values *of) {
    char epoch[16] = "", part[16] = "";
    if (of->with_epoch)
        snprintf(epoch, sizeof epoch, "%" PRIu32 "-", of->epoch);
    if (of->with_sub)
        snprintf(part, sizeof part, ".%" PRIu32, of->sub);
    return snprintf(text, room, "%s%06" PRIu64 "%s", epoch, of->number, part);
}

/* Any text, of which `all` bytes count: it must not lead to another folder, hide the file, or make its name too
 * long. */
static int print_text(char *text, size_t room, const char *whole, size_t all) {
    const size_t some = all > LABEL_BYTES ? mr_utf8_fit(whole, LABEL_BYTES) : all;
    const int length = snprintf(text, room, "%.*s", some ? (int)some : 1, some ? whole : "_");
    for (char *at = text; room && *at; at++)
        if (*at == '/' || (unsigned char)*at < ' ' || (at == text && *at == '.'))
            *at = '_';
    return length;
}

static int print_label(char *text, size_t room, const mr_object *object) {
    const char *label = object ? object->label : "none";
    if (!label)
        return snprintf(text, room, "%" PRId32, object->index);
    return print_text(text, room, label, strnlen(label, LABEL_BYTES + 1));
}

/* "IMG_1" for "photos/IMG_1.JPG". A file like ".jpg" has no other name than its ending. */
static int print_stem(char *text, size_t room, const values *of) {
    if (!of->file)
        return print_source(text, room, of->source);
    const char *slash = strrchr(of->file, '/'), *name = slash ? slash + 1 : of->file, *point = strrchr(name, '.');
    return print_text(text, room, name, point > name ? (size_t)(point - name) : strlen(name));
}

static int print_token(char *text, size_t room, int token, const values *of) {
    switch (token) {
    case SOURCE:
        return print_source(text, room, of->source);
    case TIME:
        return print_time(text, room, of->seconds);
    case EPOCH:
        return snprintf(text, room, "%" PRIu32, of->epoch);
    case SUB:
        return snprintf(text, room, "%" PRIu32, of->sub);
    case LABEL:
        return print_label(text, room, of->object);
    case STEM:
        return print_stem(text, room, of);
    case TRACK:
        return snprintf(text, room, "%" PRId64, of->object ? of->object->track : 0);
    default:
        return print_number(text, room, of);
    }
}

/* Fills in a pattern with `stem` bytes. Returns the length; `room` or more: no room. */
static size_t fill(char *name, size_t room, const char *pattern, size_t stem, token_set set, const values *of) {
    size_t length = 0;
    int token;
    for (const char *at = pattern; length < room && at < pattern + stem; at = next_of(at, token)) {
        token = token_at(at, set);
        if (token < TOKENS)
            length += (size_t)print_token(name + length, room - length, token, of);
        else
            name[length++] = *at;
    }
    if (length < room)
        name[length] = '\0';
    return length;
}

int mr_file_name_print(char name[MR_OUTPUT_NAME], const char *pattern, const char *source, uint64_t number,
                       int64_t seconds, int again) {
    const char *stop = mr_file_name_ending(pattern);
    const size_t stem = *stop ? (size_t)(stop - pattern) : strlen(pattern);
    size_t length = fill(name, MR_OUTPUT_NAME, pattern, stem, OF_FILES,
                         &(values){.source = source, .number = number, .seconds = seconds});
    if (length < MR_OUTPUT_NAME && again)
        length += (size_t)snprintf(name + length, MR_OUTPUT_NAME - length, "-%d", again + 1);
    if (length < MR_OUTPUT_NAME)
        length += (size_t)snprintf(name + length, MR_OUTPUT_NAME - length, "%s", stop);
    return length < MR_OUTPUT_NAME
               ? MR_OK
               : mr_fail(MR_ERROR_IO, "the name of a file is longer than %d bytes", MR_OUTPUT_NAME - 1);
}

int mr_picture_name_print(char *name, size_t room, const char *pattern, const mr_picture_name *picture) {
    const mr_identity *identity = &picture->identity;
    const values of = {.source = picture->source,
                       .file = picture->file,
                       .number = identity->seq,
                       .seconds = picture->seconds,
                       .epoch = identity->epoch,
                       .sub = identity->sub,
                       .object = picture->object,
                       .with_sub = identity->sub && !strstr(pattern, tokens[SUB]),
                       .with_epoch = identity->epoch && !strstr(pattern, tokens[EPOCH])};
    return fill(name, room, pattern, strlen(pattern), OF_PICTURES, &of) < room
               ? MR_OK
               : mr_fail(MR_ERROR_IO, "the name of a picture's file is longer than %zu bytes", room - 1);
}

/* ---- recognising ------------------------------------------------------------------------------------------------- */

static size_t digits_at(const char *text) {
    size_t count = 0;
    while (isdigit((unsigned char)text[count]))
        count++;
    return count;
}

static bool is_time(const char *text) {
    for (size_t i = 0; time_digits[i]; i++)
        if (time_digits[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != time_digits[i])
            return false;
    return true;
}

/* Returns the text after the token's value; NULL if it is not there. */
static const char *pass_token(const char *text, int token, const char *source, uint64_t *number) {
    char printed[MR_OUTPUT_NAME];
    size_t digits;
    switch (token) {
    case SOURCE:
        print_source(printed, sizeof printed, source);
        return strncmp(text, printed, strlen(printed)) == 0 ? text + strlen(printed) : NULL;
    case NUMBER:
        digits = digits_at(text);
        if (digits < 6 || digits > 18 || sscanf(text, "%18" SCNu64, number) != 1)
            return NULL;
        return text + digits;
    default:
        return is_time(text) ? text + strlen(time_digits) : NULL;
    }
}

/* Returns the text after everything that matches the pattern up to `end`; NULL if it does not match. */
static const char *pass(const char *text, const char *pattern, const char *end, const char *source, uint64_t *number) {
    int token;
    for (; text && pattern < end; pattern = next_of(pattern, token)) {
        token = token_at(pattern, OF_FILES);
        text = token < TOKENS ? pass_token(text, token, source, number) : *text == *pattern ? text + 1 : NULL;
    }
    return text;
}

bool mr_file_name_matches(const char *name, const char *pattern, const char *source, mr_file_name_parts *parts) {
    const char *stop = mr_file_name_ending(pattern), *text;
    size_t stem = *stop ? (size_t)(stop - pattern) : strlen(pattern);
    mr_file_name_parts found = {0};
    text = pass(name, pattern, pattern + stem, source, &found.number);
    found.again = text && *text == '-' && digits_at(text + 1);
    if (found.again)
        text += 1 + digits_at(text + 1);
    if (!text || strcmp(text, stop) != 0)
        return false;
    if (parts)
        *parts = found;
    return true;
}

bool mr_file_name_has_source(const char *name, const char *pattern, const char *source) {
    uint64_t number;
    const char *place = strstr(pattern, tokens[SOURCE]);
    return place && pass(name, pattern, next_of(place, SOURCE), source, &number);
}
