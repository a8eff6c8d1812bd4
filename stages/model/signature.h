/* Signatures of heads (millrace/signature.h), for those that write and open the folders. */
#pragma once

#include <stddef.h>

#include "millrace/signature.h"

/* Writes head.sig and head.pub into the folder: `card` is what its head.json holds. Errors of mr_signing_key_check. */
int mr_signature_write(const char *folder, const void *card, size_t bytes, const char *private_key);
/* MR_OK if head.sig is the signature of these bytes by the owner of the key in that file; else as
 * mr_classifier_open_signed. */
int mr_signature_check(const char *folder, const void *card, size_t bytes, const char *public_key);
