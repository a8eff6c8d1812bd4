#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/url.h"
#include "tools/millrace/deploy/deployment.h"

/* "${NAME}" or "${NAME:?MESSAGE}": returns the text after it. "${NAME:-DEFAULT}": that after the mark, since the
 * default is written out. NULL: it is neither. */
static const char *after_name(const char *text, bool *whole) {
    const char *at = text + 2;
    if (strncmp(text, "${", 2) != 0)
        return NULL;
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    if (strncmp(at, ":?", 2) == 0 && strchr(at, '}'))
        at = strchr(at, '}');
    *whole = *at == '}';
    return *whole ? at + 1 : strncmp(at, ":-", 2) == 0 ? at + 2 : NULL;
}

/* Whether a variable that ends in "@" is a URL's password, or all of its user and password. */
static bool is_password(const char *begin, const char *end) {
    return (end > begin && end[-1] == ':') || (end > begin + 1 && end[-1] == '/' && end[-2] == '/');
}

/* Takes the variables out of a copy, and users whose password is a variable. */
static void take_variables(const char *text, char *copy) {
    char *to = copy;
    while (*text) {
        bool whole = false;
        const char *after = after_name(text, &whole);
        if (!after) {
            *to++ = *text++;
            continue;
        }
        text = after;
        if (!whole || *text != '@' || !is_password(copy, to))
            continue;
        while (to > copy && !strchr("/ \t\"'", to[-1]))
            to--;
        text++;
    }
    *to = 0;
}

bool mr_deploy_shows_secret(const char *text) {
    char *copy = malloc(strlen(text) + 1), *hidden = NULL;
    if (copy) {
        take_variables(text, copy);
        hidden = strdup(copy);
    }
    if (hidden)
        mr_url_hide(hidden);
    const bool shows = !hidden || strcmp(hidden, copy) != 0;
    free(hidden);
    free(copy);
    return shows;
}
