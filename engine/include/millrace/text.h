/* The result kind `text` (result.h): text that a stage read in a picture.
 *
 * Ownership, threads and errors: as for all results. Scores are from 0 to 1. */
#ifndef MILLRACE_TEXT_H
#define MILLRACE_TEXT_H

#include "millrace/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_text {
    mr_items text; /* char: UTF-8, without a zero */
    float score;   /* how sure the stage is */
} mr_text;

/* `text`: elements are mr_text. */
MR_API const mr_result_kind *mr_kind_text(void);

#ifdef __cplusplus
}
#endif
#endif
