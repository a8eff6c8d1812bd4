#include "engine/plan/assumption.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/text/value.h"
#include "millrace/plan.h"
#include "millrace/status.h"

enum { MOST_ASSUMED = 256 };

/* The text after the count: a card, memory, or both: "H100", "80GiB", "H100x40GiB". Names of cards, and of card files,
 * can contain an x. */
static bool parse_each(const char *text, mr_assumption *to) {
    mr_card card;
    const char *last = strrchr(text, 'x');
    size_t length = strlen(text);
    if (mr_value_bytes(text, &to->bytes))
        return to->bytes > 0;
    if (last && strchr(last, 'B') && !mr_card_find(text, &card) && mr_value_bytes(last + 1, &to->bytes)) {
        length = (size_t)(last - text);
        if (to->bytes <= 0)
            return false;
    }
    snprintf(to->like, sizeof to->like, "%.*s", (int)length, text);
    return length > 0 && length < sizeof to->like && !isdigit((unsigned char)*text);
}

/* "cuda:8x80GiB": eight devices with that much memory each; "sim:2": two; "cuda:2xH100": two such cards. */
bool mr_plan_parse_assumption(const char *text, mr_assumption *to) {
    char *end;
    *to = (mr_assumption){0};
    to->kind = strncmp(text, "cuda:", 5) == 0 ? "cuda" : strncmp(text, "sim:", 4) == 0 ? "sim" : NULL;
    if (!to->kind || text[strlen(to->kind) + 1] < '0' || text[strlen(to->kind) + 1] > '9')
        return false;
    long number = strtol(text + strlen(to->kind) + 1, &end, 10);
    to->count = (int)number;
    if (number < 1 || number > MOST_ASSUMED)
        return false;
    return *end == 0 || (*end == 'x' && parse_each(end + 1, to));
}

/* Reports that there is no such card, with the nearest known one. */
static int refuse_card(const char *name) {
    char hint[MR_CARD_NAME + 32], why[512];
    mr_nearest nearest = {.wanted = name};
    snprintf(why, sizeof why, "%s", mr_message());
    for (size_t i = 0; mr_card_name(i); i++)
        mr_nearest_offer(&nearest, mr_card_name(i));
    const char *meant = strpbrk(name, "./") ? NULL : mr_nearest_hint(&nearest, hint, sizeof hint, NULL);
    return mr_fail(MR_ERROR_USAGE, "--assume: %s%s%s", why, meant ? "; " : "", meant ? meant : "");
}

int mr_plan_check_assumption(const char *text) {
    mr_assumption parsed;
    mr_card card;
    if (!mr_plan_parse_assumption(text, &parsed))
        return mr_fail(MR_ERROR_USAGE,
                       "--assume takes cuda:COUNT or sim:COUNT, followed by the memory of each or a card, such as "
                       "cuda:8x80GiB or cuda:8xH100, not \"%s\"",
                       text);
    return parsed.like[0] && mr_card_open(parsed.like, &card) ? refuse_card(parsed.like) : MR_OK;
}
