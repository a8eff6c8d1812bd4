/* What several verbs tell of the card of a classifier (millrace/classifier.h) as JSON. One thread. */
#ifndef MILLRACE_TOOLS_CLI_CARD_H
#define MILLRACE_TOOLS_CLI_CARD_H

#include "engine/base/json.h"
#include "millrace/classifier.h"

/* `penalties`, in the order in which they were fitted, and `warnings`, into the map that is open. */
void mr_card_put_fit(yajl_gen json, const mr_classifier_card *card);

#endif
