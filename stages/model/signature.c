#include "stages/model/signature.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "stages/model/classifier.h"

enum { KEY = 32, SIGNATURE = 64, PEM_BYTES = 512, MOST_CARD_BYTES = 16 << 20 };
static const size_t MOST_FILE_BYTES = (size_t)2 << 30; /* ONNX limit, from protobuf */

_Static_assert(KEY == crypto_sign_SEEDBYTES && KEY == crypto_sign_PUBLICKEYBYTES && SIGNATURE == crypto_sign_BYTES,
               "sizes of RFC 8032");

/* A DER key is one of these prefixes followed by 32 bytes (RFC 8410, sections 4 and 7). */
typedef struct key_form {
    const char *title; /* PEM title */
    const char *what;
    size_t bytes;
    uint8_t before[16];
} key_form;
static const key_form private_form = {"PRIVATE KEY", "a private key for signatures (Ed25519)", 16,
                                      {0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20}};
static const key_form public_form = {"PUBLIC KEY", "a public key for signatures (Ed25519)", 12,
                                     {0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0}};

static int prepare(void) {
    return sodium_init() >= 0 ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "libsodium cannot be used on this machine");
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void print_pem(const key_form *form, const uint8_t key[KEY], char text[PEM_BYTES]) {
    uint8_t whole[sizeof form->before + KEY];
    char code[sodium_base64_ENCODED_LEN(sizeof whole, sodium_base64_VARIANT_ORIGINAL)];
    memcpy(whole, form->before, form->bytes);
    memcpy(whole + form->bytes, key, KEY);
    sodium_bin2base64(code, sizeof code, whole, form->bytes + KEY, sodium_base64_VARIANT_ORIGINAL);
    snprintf(text, PEM_BYTES, "-----BEGIN %s-----\n%s\n-----END %s-----\n", form->title, code, form->title);
    sodium_memzero(whole, sizeof whole);
    sodium_memzero(code, sizeof code);
}

/* Text before the first PEM line is a remark. */
static bool parse_pem(const key_form *form, const char *text, uint8_t key[KEY]) {
    char line[64];
    uint8_t whole[sizeof form->before + KEY];
    size_t bytes = 0;
    snprintf(line, sizeof line, "-----BEGIN %s-----", form->title);
    const char *from = strstr(text, line);
    snprintf(line, sizeof line, "-----END %s-----", form->title);
    const char *to = from ? strstr(from, line) : NULL;
    if (!to)
        return false;
    from += strcspn(from, "\n");
    bool good = from < to &&
                !sodium_base642bin(whole, sizeof whole, from, (size_t)(to - from), " \r\n", &bytes, NULL,
                                   sodium_base64_VARIANT_ORIGINAL) &&
                bytes == form->bytes + KEY && !memcmp(whole, form->before, form->bytes);
    if (good)
        memcpy(key, whole + form->bytes, KEY);
    sodium_memzero(whole, sizeof whole);
    return good;
}

static int read_key(const key_form *form, const char *path, uint8_t key[KEY]) {
    char text[PEM_BYTES];
    FILE *file;
    int status = prepare();
    if (!status)
        status = mr_key_file_open(path, "millrace keygen --sign", &file);
    if (status)
        return status;
    status = form == &private_form ? mr_key_file_check_private(file, path)
                                   : mr_trusted_file_check(fileno(file), path, "which key");
    text[status ? 0 : fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (!status && !parse_pem(form, text, key))
        status = mr_fail(MR_ERROR_DATA, "%s is not %s, as `millrace keygen --sign` makes it", path, form->what);
    sodium_memzero(text, sizeof text);
    return status;
}

int mr_signing_key_check(const char *path) {
    uint8_t seed[KEY];
    int status = read_key(&private_form, path, seed);
    sodium_memzero(seed, sizeof seed);
    return status;
}

int mr_signing_keys_write(const char *folder, const char *name) {
    uint8_t seed[KEY], public_key[KEY], secret_key[crypto_sign_SECRETKEYBYTES];
    char private_text[PEM_BYTES], public_text[PEM_BYTES];
    int status = prepare();
    if (status)
        return status;
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(public_key, secret_key, seed);
    print_pem(&private_form, seed, private_text);
    print_pem(&public_form, public_key, public_text);
    status = mr_key_file_write(folder, name, private_text, public_text);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret_key, sizeof secret_key);
    sodium_memzero(private_text, sizeof private_text);
    return status;
}

/* ---- signatures -------------------------------------------------------------------------------------------------- */

static int set_path(char path[MR_HEAD_PATH], const char *folder, const char *file) {
    if ((size_t)snprintf(path, MR_HEAD_PATH, "%s/%s", folder, file) < MR_HEAD_PATH)
        return MR_OK;
    return mr_fail(MR_ERROR_NO_INPUT, "the path of %s is too long", file);
}

/* A signature's two files. */
typedef struct signature_paths {
    char signature[MR_HEAD_PATH], key[MR_HEAD_PATH];
} signature_paths;

static int paths_of_head(const char *folder, signature_paths *to) {
    int status = set_path(to->signature, folder, "head.sig");
    return status ? status : set_path(to->key, folder, "head.pub");
}

static int paths_of_file(const char *path, signature_paths *to) {
    if ((size_t)snprintf(to->signature, MR_HEAD_PATH, "%s.sig", path) >= MR_HEAD_PATH)
        return mr_fail(MR_ERROR_NO_INPUT, "%s: the path is too long", path);
    snprintf(to->key, MR_HEAD_PATH, "%s.pub", path);
    return MR_OK;
}

static int write_signature(const signature_paths *to, const void *data, size_t bytes, const char *private_key) {
    uint8_t seed[KEY], public_key[KEY], secret_key[crypto_sign_SECRETKEYBYTES], signature[SIGNATURE];
    char text[PEM_BYTES];
    int status = read_key(&private_form, private_key, seed);
    if (status)
        return status;
    crypto_sign_seed_keypair(public_key, secret_key, seed);
    crypto_sign_detached(signature, NULL, data, bytes, secret_key);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret_key, sizeof secret_key);
    print_pem(&public_form, public_key, text);
    status = mr_file_replace(to->signature, signature, sizeof signature);
    return status ? status : mr_file_replace(to->key, text, strlen(text));
}

int mr_signature_write(const char *folder, const void *card, size_t bytes, const char *private_key) {
    signature_paths to;
    int status = paths_of_head(folder, &to);
    return status ? status : write_signature(&to, card, bytes, private_key);
}

int mr_signature_write_file(const char *path, const char *from, const char *private_key) {
    signature_paths to;
    mr_file_bytes file = {0};
    int status = paths_of_file(path, &to);
    if (!status)
        status = mr_file_read("a file to sign", from, MOST_FILE_BYTES, 0, &file);
    if (!status)
        status = write_signature(&to, file.data, file.bytes, private_key);
    mr_free(file.data);
    return status;
}

/* *there: there is a signature. One with a wrong length is kept as an invalid signature. */
static int read_signature_at(const char *path, uint8_t signature[SIGNATURE], bool *there) {
    mr_file_bytes file = {0};
    *there = !access(path, F_OK) || errno != ENOENT;
    memset(signature, 0, SIGNATURE);
    if (!*there)
        return MR_OK;
    int status = mr_file_read("a signature", path, PEM_BYTES, 0, &file);
    if (!status && file.bytes == SIGNATURE)
        memcpy(signature, file.data, SIGNATURE);
    mr_free(file.data);
    return status == MR_ERROR_DATA ? MR_OK : status;
}

static int read_signature(const char *folder, uint8_t signature[SIGNATURE], bool *there) {
    char path[MR_HEAD_PATH];
    *there = false;
    int status = set_path(path, folder, "head.sig");
    return status ? status : read_signature_at(path, signature, there);
}

static bool fits(const uint8_t signature[SIGNATURE], const void *card, size_t bytes, const uint8_t key[KEY]) {
    return crypto_sign_verify_detached(signature, card, bytes, key) == 0;
}

/* Reads the key that the folder claims to be signed with. */
static bool read_own_key(const char *folder, uint8_t key[KEY]) {
    char path[MR_HEAD_PATH];
    return !set_path(path, folder, "head.pub") && !read_key(&public_form, path, key);
}

static void print_key(const uint8_t key[KEY], char text[MR_SIGNATURE_KEY]) {
    sodium_bin2hex(text, MR_SIGNATURE_KEY, key, KEY);
}

int mr_signature_check(const char *folder, const void *card, size_t bytes, const char *public_key) {
    uint8_t key[KEY], own[KEY], signature[SIGNATURE];
    char asked[MR_SIGNATURE_KEY], found[MR_SIGNATURE_KEY];
    bool there;
    int status = read_key(&public_form, public_key, key);
    if (!status)
        status = read_signature(folder, signature, &there);
    if (status)
        return status;
    if (!there)
        return mr_fail(MR_ERROR_DATA, "%s is not signed, and only a classifier that is signed with the key of %s is "
                                      "taken: train it with --sign", folder, public_key);
    if (fits(signature, card, bytes, key))
        return MR_OK;
    print_key(key, asked);
    if (read_own_key(folder, own) && memcmp(own, key, KEY) != 0) {
        print_key(own, found);
        return mr_fail(MR_ERROR_DATA, "%s is signed with another key, %s, and not with that of %s, %s", folder, found,
                       public_key, asked);
    }
    return mr_fail(MR_ERROR_DATA, "%s is not as it was signed with the key of %s: head.json or head.sig was changed "
                                  "since", folder, public_key);
}

/* Checks the signature for the file `path`. */
static int look(const signature_paths *at, const char *what, const char *path, size_t most, mr_signature *to) {
    uint8_t key[KEY], signature[SIGNATURE];
    mr_file_bytes file = {0};
    bool there = false;
    *to = (mr_signature){0};
    int status = prepare();
    if (!status)
        status = read_signature_at(at->signature, signature, &there);
    if (status || !there)
        return status;
    status = mr_file_read(what, path, most, 0, &file);
    to->state = MR_SIGNATURE_BAD;
    if (!status && !read_key(&public_form, at->key, key)) {
        print_key(key, to->key);
        to->state = fits(signature, file.data, file.bytes, key) ? MR_SIGNATURE_GOOD : MR_SIGNATURE_BAD;
    }
    mr_free(file.data);
    return status;
}

int mr_signature_read(const char *folder, mr_signature *to) {
    MR_PLAIN_NUMBERS;
    char path[MR_HEAD_PATH];
    signature_paths at;
    int status = paths_of_head(folder, &at);
    if (!status)
        status = set_path(path, folder, "head.json");
    return status ? status : look(&at, "the card of a classifier", path, MOST_CARD_BYTES, to);
}

int mr_signature_read_file(const char *path, mr_signature *to) {
    signature_paths at;
    int status = paths_of_file(path, &at);
    return status ? status : look(&at, "a signed file", path, MOST_FILE_BYTES, to);
}
