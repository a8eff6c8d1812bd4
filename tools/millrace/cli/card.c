#include "tools/millrace/cli/card.h"

#include <stdio.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

bool mr_card_is_head(const char *word) {
    char path[PATH_BYTES];
    return (size_t)snprintf(path, sizeof path, "%s/head.json", word) < sizeof path && access(path, F_OK) == 0;
}

void mr_card_put_fit(yajl_gen json, const mr_classifier_card *card) {
    MR_JSON_ARRAY(json, "penalties")
        for (size_t i = 0; i < card->tried_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_exact(json, "c", card->tried[i].c);
                mr_json_exact(json, "objective", card->tried[i].objective);
                mr_json_exact(json, "validation", card->tried[i].validation);
                mr_json_integer(json, "steps", card->tried[i].steps);
                mr_json_text(json, "end", card->tried[i].end);
                mr_json_bool(json, "chosen", i == card->chosen);
            }
    MR_JSON_ARRAY(json, "warnings")
        for (size_t i = 0; i < card->warning_count; i++)
            mr_json_text(json, NULL, card->warnings[i]);
}
