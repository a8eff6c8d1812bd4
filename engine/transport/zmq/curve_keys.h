/* CURVE keys, with which ZeroMQ encrypts and peers identify each other: pairs in files, and lists of the public keys
 * that may connect.
 *
 * A key is 32 bytes, or 40 characters in ZeroMQ's Z85 (https://rfc.zeromq.org/spec/32). Files have ZeroMQ's certificate
 * format (ZPL), so that czmq's zcert and pyzmq's zmq.auth.load_certificate can read them: lines `public-key = "..."`
 * and, in private files, `secret-key = "..."`; what begins with # is a comment. An allow-list has one public key per
 * line; a comment may follow it.
 *
 * A private file that anybody but the owner can read or write is refused: it is not secret. Any thread may call
 * functions here; only one at a time may change a list. Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA
 * (no key where one must be), MR_ERROR_IO, MR_ERROR_UNAVAILABLE (libzmq was built without CURVE), MR_ERROR_MEMORY; the
 * message names file and line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/keys.h"

enum { MR_KEY_BYTES = 32 };

int mr_key_pair_read(mr_key_pair *pair, const char *path);

/* The one public key that `text` is, or that the file of that name holds. */
int mr_key_public(const char *text, char key[MR_KEY_TEXT]);
bool mr_key_decode(const char *text, uint8_t key[MR_KEY_BYTES]);
void mr_key_encode(const uint8_t key[MR_KEY_BYTES], char text[MR_KEY_TEXT]);

/* All zero is empty. */
typedef struct mr_allow_list {
    size_t count, room;
    uint8_t (*keys)[MR_KEY_BYTES];
} mr_allow_list;

/* Adds a key, or all keys of a file: an allow-list or a NAME.pub. A file without any is refused. */
int mr_allow_list_add(mr_allow_list *list, const char *key_or_path);
bool mr_allow_list_has(const mr_allow_list *list, const uint8_t key[MR_KEY_BYTES]);
void mr_allow_list_fini(mr_allow_list *list);
