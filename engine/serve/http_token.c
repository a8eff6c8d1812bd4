#include "engine/serve/http_token.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

enum { LEAST_TOKEN = 16, MOST_TOKEN = 1024 };

int mr_http_token_check(const char *token, const char *origin) {
    size_t bytes = strlen(token);
    if (bytes < LEAST_TOKEN || bytes > MOST_TOKEN)
        return mr_fail(MR_ERROR_CONFIG, "the token%s has %zu characters: it must have %d to %d; `openssl rand -hex 16` "
                                        "makes one", origin, bytes, LEAST_TOKEN, MOST_TOKEN);
    for (; *token; token++)
        if (*token < '!' || *token > '~')
            return mr_fail(MR_ERROR_CONFIG, "the token%s has a space, or a character that is not ASCII", origin);
    return MR_OK;
}

int mr_http_token_read(const char *path, char **token) {
    mr_file_bytes content;
    int fd = open(path, O_PATH | O_CLOEXEC), status = fd < 0 ? MR_OK : mr_secret_file_check(fd, path, "a token");
    if (fd >= 0)
        close(fd);
    if (!status)
        status = mr_file_read("the token", path, (size_t)MOST_TOKEN + 2, 0, &content);
    if (status)
        return status;
    char *text = (char *)content.data;
    text[strcspn(text, "\r\n")] = '\0';
    char origin[512];
    snprintf(origin, sizeof origin, " in %.500s", path);
    status = mr_http_token_check(text, origin);
    if (status)
        mr_http_token_forget(&text);
    else
        *token = text;
    return status;
}

void mr_http_token_forget(char **token) {
    if (*token)
        explicit_bzero(*token, strlen(*token));
    mr_free(*token);
    *token = NULL;
}

bool mr_http_token_is(const char *token, const char *given) {
    const size_t bytes = strlen(token), given_bytes = strlen(given);
    unsigned different = bytes != given_bytes;
    for (size_t i = 0; i < given_bytes; i++)
        different |= (unsigned)((unsigned char)given[i] ^ (unsigned char)token[i % bytes]);
    return !different;
}
