/* Texts with tokens, such as "{label} {track}". Tokens without a value print nothing, and a word whose tokens all have
 * none is left out. Pure functions. */
#pragma once

#include "millrace/frame.h"
#include "millrace/objects.h"

enum { MR_WORDS = 512 };

/* MR_OK, or MR_ERROR_CONFIG: a brace that is no token; the message lists the tokens. */
int mr_words_check_label(const char *pattern);
int mr_words_check_caption(const char *pattern);

/* `objects` is the result that contains the object. */
void mr_words_of_object(char text[MR_WORDS], const char *pattern, const mr_result *objects, const mr_object *object);
void mr_words_of_frame(char text[MR_WORDS], const char *pattern, const char *source, const mr_frame *frame,
                       const mr_result *objects);
