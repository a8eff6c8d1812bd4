#include "stages/sink/file_name.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "millrace/status.h"

static const char *const tokens[] = {"{source}", "{number}", "{time}"};
static const char time_digits[] = "00000000T000000Z";
enum { SOURCE, NUMBER, TIME, TOKENS };

/* The token that the text begins with; TOKENS if there is none. */
static int token_at(const char *text) {
    int token = 0;
    while (token < TOKENS && strncmp(text, tokens[token], strlen(tokens[token])) != 0)
        token++;
    return token;
}

const char *mr_file_name_ending(const char *name) {
    const char *point = strrchr(name, '.');
    return point ? point : "";
}

/* {number} takes all digits that it meets: next to those of another value, files of two sources, or of two numbers,
 * would have one name. */
static bool runs_together(const char *pattern, const char *number) {
    const char *after = number + strlen(tokens[NUMBER]), *before = number;
    while (before > pattern && isdigit((unsigned char)before[-1]))
        before--;
    return token_at(after) < TOKENS || isdigit((unsigned char)*after) || (before > pattern && before[-1] == '}');
}

int mr_file_name_check(const char *pattern) {
    for (const char *at = pattern; *at; at++) {
        int token = token_at(at);
        if (*at == '/' || (token == TOKENS && (*at == '{' || *at == '}')))
            return mr_fail(MR_ERROR_CONFIG, "name may hold {source}, {number} and {time}, and no slash: \"%s\"",
                           pattern);
        if (token == NUMBER && runs_together(pattern, at))
            return mr_fail(MR_ERROR_CONFIG, "the digits of {number} would run into those beside it: write a sign that "
                           "is no digit between them, such as {source}-{number}%s", mr_file_name_ending(pattern));
        if (token < TOKENS)
            at += strlen(tokens[token]) - 1;
    }
    return MR_OK;
}

bool mr_file_name_counts(const char *pattern) {
    return strstr(pattern, tokens[NUMBER]);
}

bool mr_file_name_differs(const char *pattern) {
    return mr_file_name_counts(pattern) || strstr(pattern, tokens[TIME]);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static int print_time(char *text, size_t room, int64_t seconds) {
    struct tm utc;
    time_t at = (time_t)seconds;
    return gmtime_r(&at, &utc) ? (int)strftime(text, room, "%Y%m%dT%H%M%SZ", &utc) : 0;
}

static int print_source(char *text, size_t room, const char *source) {
    int length = snprintf(text, room, "%s", source);
    for (char *slash = text; room && (slash = strchr(slash, '/'));)
        *slash = '_';
    return length;
}

static int print_token(char *text, size_t room, int token, const char *source, uint64_t number, int64_t seconds) {
    switch (token) {
    case SOURCE:
        return print_source(text, room, source);
    case NUMBER:
        return snprintf(text, room, "%06" PRIu64, number);
    default:
        return print_time(text, room, seconds);
    }
}

int mr_file_name_print(char name[MR_OUTPUT_NAME], const char *pattern, const char *source, uint64_t number,
                        int64_t seconds, int again) {
    const char *stop = mr_file_name_ending(pattern);
    size_t length = 0, stem = *stop ? (size_t)(stop - pattern) : strlen(pattern);
    for (const char *at = pattern; length < MR_OUTPUT_NAME && at < pattern + stem;) {
        int token = token_at(at), added = 1;
        if (token < TOKENS)
            added = print_token(name + length, MR_OUTPUT_NAME - length, token, source, number, seconds);
        else
            name[length] = *at;
        at += token < TOKENS ? strlen(tokens[token]) : 1;
        length += (size_t)added;
    }
    if (length < MR_OUTPUT_NAME && again)
        length += (size_t)snprintf(name + length, MR_OUTPUT_NAME - length, "-%d", again + 1);
    if (length < MR_OUTPUT_NAME)
        length += (size_t)snprintf(name + length, MR_OUTPUT_NAME - length, "%s", stop);
    return length < MR_OUTPUT_NAME
               ? MR_OK
               : mr_fail(MR_ERROR_IO, "the name of a file is longer than %d bytes", MR_OUTPUT_NAME - 1);
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

/* The text behind the token's value; NULL if it is not there. */
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

bool mr_file_name_matches(const char *name, const char *pattern, const char *source, mr_file_name_parts *parts) {
    const char *stop = mr_file_name_ending(pattern), *text = name;
    size_t stem = *stop ? (size_t)(stop - pattern) : strlen(pattern);
    mr_file_name_parts found = {0};
    for (const char *at = pattern; text && at < pattern + stem;) {
        int token = token_at(at);
        text = token < TOKENS ? pass_token(text, token, source, &found.number) : *text == *at ? text + 1 : NULL;
        at += token < TOKENS ? strlen(tokens[token]) : 1;
    }
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
    const char *place = strstr(pattern, tokens[SOURCE]), *text = name;
    for (const char *at = pattern; place && text && at <= place;) {
        int token = token_at(at);
        text = token < TOKENS ? pass_token(text, token, source, &number) : *text == *at ? text + 1 : NULL;
        at += token < TOKENS ? strlen(tokens[token]) : 1;
    }
    return place && text;
}
