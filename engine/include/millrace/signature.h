/* Signatures of classifiers: they show whether a head's folder is as the key's owner left it.
 *
 *     mr_signature signature;
 *     if (!mr_signature_read("head", &signature) && signature.state == MR_SIGNATURE_GOOD)
 *         printf("signed by %s\n", signature.key);
 *
 * A signature is Ed25519 (RFC 8032) over the bytes of head.json, which has the SHA-256 of every other file that is
 * used. `head.sig` holds its 64 bytes, `head.pub` the public key. Key files are PEM (RFC 8410). OpenSSL can make keys
 * and signatures and check them ("openssl pkeyutl -verify -pubin -inkey head.pub -rawin -in head.json -sigfile
 * head.sig"). A signature proves something only if you know the key from elsewhere.
 *
 * Any thread. Error messages name the file.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_SIGNATURE_H
#define MILLRACE_SIGNATURE_H

#include "millrace/classifier.h"
#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a key pair: FOLDER/NAME.key, which only the owner can read, and FOLDER/NAME.pub. See mr_key_pair_write
 * (keys.h). */
MR_API int mr_signing_keys_write(const char *folder, const char *name);
/* Checks that a file is a private key for mr_head_notes.sign_key. MR_ERROR_NO_INPUT, MR_ERROR_IO. MR_ERROR_PERMISSION:
 * also if others than the owner can read it. MR_ERROR_DATA: the file is not such a key. */
MR_API int mr_signing_key_check(const char *path);

typedef enum mr_signature_state {
    MR_SIGNATURE_NONE, /* the folder is not signed */
    MR_SIGNATURE_GOOD, /* head.json is unchanged since it was signed with that key */
    MR_SIGNATURE_BAD   /* head.json was changed, or a signature file is damaged or missing */
} mr_signature_state;
/* A public key as 64 hexadecimal digits, with the final 0. */
enum { MR_SIGNATURE_KEY = 65 };
typedef struct mr_signature {
    mr_signature_state state;
    char key[MR_SIGNATURE_KEY]; /* the key in head.pub; "" if there is none */
} mr_signature;
/* Reads and checks the signature of a head's folder. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO. */
MR_API int mr_signature_read(const char *folder, mr_signature *signature);

/* Signs another file, such as an exported ONNX file. PATH.sig holds the signature over all its bytes, at most 2 GiB,
 * and PATH.pub the public key. `from` is the file that has the bytes now, before it is renamed to PATH. Errors as for
 * mr_signing_key_check, and of files. */
MR_API int mr_signature_write_file(const char *path, const char *from, const char *private_key);
/* As mr_signature_read, for such a file. */
MR_API int mr_signature_read_file(const char *path, mr_signature *signature);

/* As mr_classifier_open, for a folder that must be signed with the private key of `public_key`, a file. NULL: it need
 * not be signed. MR_ERROR_DATA: it is not signed, has another key, or was changed since; the message has the keys. */
MR_API int mr_classifier_open_signed(mr_classifier **classifier, const char *folder, const char *public_key);

#ifdef __cplusplus
}
#endif
#endif
