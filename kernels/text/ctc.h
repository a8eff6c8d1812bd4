/* Text from a network that was trained with CTC (Graves et al., "Connectionist Temporal Classification", 2006): for
 * each step, the network scores all characters and "blank". Joining repetitions and removing blanks gives the text.
 *
 * Greedy: the best class of each step. Score: the mean of the characters' probabilities, each from the first step that
 * has it, as in PaddleOCR. Beam: the `beam` most probable beginnings are followed, over all ways to write them (Hannun
 * et al., "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs", 2014,
 * without a language model). Score: the probability of the text, as the mean for a character (its root). Of equal ones,
 * the lower class wins.
 *
 * A value that is not a number counts as the least value. Ownership: the caller owns the values. Errors:
 * MR_ERROR_MEMORY. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_CTC_MOST_BEAM = 64 };

typedef struct mr_ctc {
    size_t classes; /* with blank */
    size_t blank;
    size_t beam; /* 1: greedy */
    bool logits; /* values are logits; else probabilities */
    size_t space; /* the space's class, if space_score is above 0 */
    double space_score; /* Greedy: if the space has at least this probability in a blank step between two characters,
                           there is a space between them, which does not count in the score. 0: only where the space is
                           the best class. */
} mr_ctc;

typedef struct mr_ctc_text {
    const int32_t *character; /* classes; valid until this thread's scratch memory is used again */
    size_t count;
    float score;              /* 0 if there is no text */
} mr_ctc_text;

/* Reads `steps` rows of `classes` values. */
int mr_ctc_read(const mr_ctc *ctc, const float *values, size_t steps, mr_ctc_text *text);
