/* Head signatures (millrace/signature.h), for code that writes and opens the folders. */
#pragma once

#include <stddef.h>

#include "millrace/signature.h"

/* Writes head.sig and head.pub to the folder; `card` is the content of head.json. mr_signing_key_check's errors. */
int mr_signature_write(const char *folder, const void *card, size_t bytes, const char *private_key);
/* MR_OK if head.sig signs these bytes with that file's key; else as mr_classifier_open_signed. */
int mr_signature_check(const char *folder, const void *card, size_t bytes, const char *public_key);
