/* Signatures of classifiers: whether a head's folder is as the owner of a key has left it.
 *
 *     mr_signature signature;
 *     if (!mr_signature_read("head", &signature) && signature.state == MR_SIGNATURE_GOOD)
 *         printf("signed by %s\n", signature.key);
 *
 * A signature is Ed25519's (RFC 8032) of the bytes of head.json, which has the SHA-256 of each other file that is used.
 * `head.sig` holds its 64 bytes, and `head.pub` beside it the public key. Keys are files of PEM as RFC 8410 has them,
 * so that OpenSSL can make keys and signatures, and check them ("openssl pkeyutl -verify -pubin -inkey head.pub -rawin
 * -in head.json -sigfile head.sig"). A signature is worth something only if its key is known from elsewhere.
 *
 * Any thread. Errors have the name of the file in their message.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
#ifndef MILLRACE_SIGNATURE_H
#define MILLRACE_SIGNATURE_H

#include "millrace/classifier.h"
#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a pair of keys: FOLDER/NAME.key, which only its owner may read, and FOLDER/NAME.pub. As mr_key_pair_write
 * (keys.h). */
MR_API int mr_signing_keys_write(const char *folder, const char *name);
/* Checks that a file is a private key that mr_head_notes.sign_key takes. MR_ERROR_NO_INPUT, MR_ERROR_IO;
 * MR_ERROR_PERMISSION, also if others than its owner may read it; MR_ERROR_DATA: it is not such a key. */
MR_API int mr_signing_key_check(const char *path);

typedef enum mr_signature_state {
    MR_SIGNATURE_NONE, /* the folder is not signed */
    MR_SIGNATURE_GOOD, /* head.json is as it was signed with that key */
    MR_SIGNATURE_BAD   /* it is not, or a file of the signature is damaged or missing */
} mr_signature_state;
/* A public key as 64 hexadecimal digits, and its final 0. */
enum { MR_SIGNATURE_KEY = 65 };
typedef struct mr_signature {
    mr_signature_state state;
    char key[MR_SIGNATURE_KEY]; /* head.pub's; "" if there is none */
} mr_signature;
/* Looks at the signature of a head's folder. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO. */
MR_API int mr_signature_read(const char *folder, mr_signature *signature);

/* Signs any other file, such as an ONNX file that was exported: PATH.sig holds the signature of all its bytes, of 2 GiB
 * at most, and PATH.pub the public key. `from`: the file that has the bytes now, before it is called PATH. Errors of
 * mr_signing_key_check, and of files. */
MR_API int mr_signature_write_file(const char *path, const char *from, const char *private_key);
/* As mr_signature_read, of such a file. */
MR_API int mr_signature_read_file(const char *path, mr_signature *signature);

/* mr_classifier_open of a folder that must be signed with the private key that belongs to the public one in that file;
 * with NULL it need not be.
 * MR_ERROR_DATA, with the keys: it is not signed, is signed with another key, or was changed since. */
MR_API int mr_classifier_open_signed(mr_classifier **classifier, const char *folder, const char *public_key);

#ifdef __cplusplus
}
#endif
#endif
