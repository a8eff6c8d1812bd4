/* The content of a pipeline as one number: for logs, and to tell whether two processes were given the same.
 *
 * The tree's SHA-256 in text order, after variables and command line overrides are replaced. It is written as in
 * bencode: a text or key as length, colon and bytes, a list as l...e, a map as d...e; `null` is n. So comments,
 * spacing, quotes and the file's folder do not count. A key `token` counts as null, and a URL's user and password do
 * not count: a digest that includes a secret would let others try guesses. Any thread. */
#pragma once

#include "engine/text/yaml.h"

enum { MR_DIGEST_TEXT = 65 };

/* In hexadecimal. MR_ERROR_MEMORY. */
int mr_yaml_digest(const mr_yaml *root, char text[MR_DIGEST_TEXT]);
/* The same with what is secret, to tell whether options have changed. It is shown nowhere. */
int mr_yaml_digest_with_secrets(const mr_yaml *root, char text[MR_DIGEST_TEXT]);
