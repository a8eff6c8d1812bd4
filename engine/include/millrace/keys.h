/* Key pairs of CURVE, with which ZeroMQ encrypts and with which peers know each other: `key`, `public_key` and `allow`
 * in the YAML name files of them.
 *
 *     mr_key_pair pair;
 *     if (!mr_key_pair_generate(&pair) && !mr_key_pair_write(&pair, "keys", "camera"))
 *         printf("%s\n", pair.public_key);
 *     mr_key_pair_forget(&pair);
 *
 * A key is 32 bytes, or 40 characters in ZeroMQ's Z85 (https://rfc.zeromq.org/spec/32). Files are those of ZeroMQ's own
 * certificates (ZPL), so that czmq's zcert and pyzmq's zmq.auth.load_certificate read them.
 *
 * Any thread. Errors have the name of the file in their message. */
#ifndef MILLRACE_KEYS_H
#define MILLRACE_KEYS_H

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A key as text, with its final 0. */
enum { MR_KEY_TEXT = 41 };

/* Belongs to the caller, who calls mr_key_pair_forget when the secret is no longer needed. */
typedef struct mr_key_pair {
    char public_key[MR_KEY_TEXT], secret_key[MR_KEY_TEXT]; /* Z85 */
} mr_key_pair;

/* Makes a new pair. MR_ERROR_UNAVAILABLE if libzmq was built without CURVE. */
MR_API int mr_key_pair_generate(mr_key_pair *pair);
/* Writes FOLDER/NAME.key, which only its owner may read, and FOLDER/NAME.pub. The folder is created if it does not
 * exist, for its owner alone. On failure there is neither file: MR_ERROR_USAGE if the name is empty, begins with a dot
 * or has a slash; MR_ERROR_IO, also if one of the files exists, since nothing is written over; MR_ERROR_PERMISSION. */
MR_API int mr_key_pair_write(const mr_key_pair *pair, const char *folder, const char *name);
/* Overwrites both keys, so that the secret does not stay in memory. */
MR_API void mr_key_pair_forget(mr_key_pair *pair);

#ifdef __cplusplus
}
#endif
#endif
