/* CURVE key pairs, with which ZeroMQ encrypts connections and identifies peers. `key`, `public_key` and `allow` in the
 * YAML name key files.
 *
 *     mr_key_pair pair;
 *     if (!mr_key_pair_generate(&pair) && !mr_key_pair_write(&pair, "keys", "camera"))
 *         printf("%s\n", pair.public_key);
 *     mr_key_pair_forget(&pair);
 *
 * A key is 32 bytes, or 40 characters in ZeroMQ's Z85 (https://rfc.zeromq.org/spec/32). Files have the format of ZeroMQ
 * certificates (ZPL); czmq's zcert and pyzmq's zmq.auth.load_certificate can read them.
 *
 * Any thread. Error messages name the file. */
#ifndef MILLRACE_KEYS_H
#define MILLRACE_KEYS_H

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A key as text, with the final 0. */
enum { MR_KEY_TEXT = 41 };

/* The caller owns it and must call mr_key_pair_forget once the secret is no longer needed. */
typedef struct mr_key_pair {
    char public_key[MR_KEY_TEXT], secret_key[MR_KEY_TEXT]; /* Z85 */
} mr_key_pair;

/* Makes a new pair. MR_ERROR_UNAVAILABLE: libzmq was built without CURVE. */
MR_API int mr_key_pair_generate(mr_key_pair *pair);
/* Writes FOLDER/NAME.key, which only the owner can read, and FOLDER/NAME.pub. Creates a missing folder with access for
 * the owner only. On failure neither file exists, unless it existed before. MR_ERROR_USAGE: the name is empty, starts
 * with a dot or has a slash. MR_ERROR_IO: also if a file exists; it is not overwritten. MR_ERROR_PERMISSION. */
MR_API int mr_key_pair_write(const mr_key_pair *pair, const char *folder, const char *name);
/* Overwrites both keys so that the secret does not stay in memory. */
MR_API void mr_key_pair_forget(mr_key_pair *pair);

#ifdef __cplusplus
}
#endif
#endif
