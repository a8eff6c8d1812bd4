/* Prints a classifier's card (millrace/classifier.h) for several verbs. One thread. */
#pragma once

#include <stdbool.h>

#include "engine/base/json.h"
#include "millrace/classifier.h"

/* True if a word names a classifier's folder, that is, one with a card. */
bool mr_card_is_head(const char *word);
/* Writes `penalties`, in the order of fitting, and `warnings` into the open map. */
void mr_card_put_fit(yajl_gen json, const mr_classifier_card *card);
