/* The content of a pipeline as one number: for logs, and to tell whether two processes were given the same.
 *
 * The SHA-256 of the tree after variables and the command line's overrides are replaced, in the order of the text. It
 * is written as in bencode: a text or key as its length, a colon and its bytes, a list as l...e, a map as d...e; `null`
 * is n. So comments, spacing and quotes do not count, and neither does the file's folder. A key `token` counts as null
 * whatever its value, and user and password of a URL do not count, since a digest of a secret would be a way to try
 * guesses. Any thread. */
#pragma once

#include "engine/text/yaml.h"

enum { MR_DIGEST_TEXT = 65 };

/* In hexadecimal. MR_ERROR_MEMORY. */
int mr_yaml_digest(const mr_yaml *root, char text[MR_DIGEST_TEXT]);
/* The same with what is secret, to tell whether options have changed. It is shown nowhere. */
int mr_yaml_digest_with_secrets(const mr_yaml *root, char text[MR_DIGEST_TEXT]);
