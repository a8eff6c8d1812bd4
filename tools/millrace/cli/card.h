/* The card of a classifier (millrace/classifier.h), as several verbs tell it. One thread. */
#pragma once

#include <stdbool.h>

#include "engine/base/json.h"
#include "millrace/classifier.h"

/* True if a word names the folder of a classifier: it has a card. */
bool mr_card_is_head(const char *word);
/* `penalties`, in the order in which they were fitted, and `warnings`, into the map that is open. */
void mr_card_put_fit(yajl_gen json, const mr_classifier_card *card);
