/* The token that an HTTP server asks for. No message contains a token. Any thread. */
#pragma once

#include <stdbool.h>

/* 16 to 1024 visible ASCII characters, as a header carries them. `origin` follows "the token" in the message: "" or
 * " in FILE". MR_ERROR_CONFIG. */
int mr_http_token_check(const char *token, const char *origin);

/* A file's content, without the line end, checked. Only the owner may have access to the file. Must be freed with
 * mr_http_token_forget. Errors: as in engine/base/file.h and key_file.h; MR_ERROR_CONFIG. */
int mr_http_token_read(const char *path, char **token);

/* Overwrites and frees the token and sets it to NULL; NULL is allowed. */
void mr_http_token_forget(char **token);

/* Compares in a time that depends only on `given`'s length. */
bool mr_http_token_is(const char *token, const char *given);
