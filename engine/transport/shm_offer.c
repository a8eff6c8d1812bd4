/* Offers in words: "HOST TOKEN PATH", the token as 32 hexadecimal digits. */
#include <stdio.h>
#include <string.h>

#include "engine/transport/shm.h"
#include "millrace/status.h"

enum { TOKEN = sizeof ((mr_shm_offer *)0)->token };

const char *mr_shm_offer_print(const mr_shm_offer *offer, char text[MR_SHM_OFFER_TEXT]) {
    char token[2 * TOKEN + 1];
    for (int i = 0; i < TOKEN; i++)
        snprintf(token + 2 * i, 3, "%02x", offer->token[i]);
    snprintf(text, MR_SHM_OFFER_TEXT, "%s %s %s", offer->host, token, offer->path);
    return text;
}

/* The word at *text, up to a space, which it goes beyond; false where it does not fit. */
static bool take_word(const char **text, char *word, size_t room) {
    size_t length = strcspn(*text, " ");
    if (length >= room || (*text)[length] != ' ')
        return false;
    memcpy(word, *text, length);
    word[length] = 0;
    *text += length + 1;
    return true;
}

static bool read_token(const char *digits, uint8_t token[TOKEN]) {
    if (strlen(digits) != 2 * TOKEN || strspn(digits, "0123456789abcdef") != 2 * TOKEN)
        return false;
    for (int i = 0; i < TOKEN; i++) {
        unsigned byte;
        sscanf(digits + 2 * i, "%2x", &byte);
        token[i] = (uint8_t)byte;
    }
    return true;
}

int mr_shm_offer_parse(const char *text, mr_shm_offer *offer) {
    char digits[2 * TOKEN + 1];
    mr_shm_offer read = {.path = ""};
    if (!take_word(&text, read.host, sizeof read.host) || !take_word(&text, digits, sizeof digits) ||
        !read_token(digits, read.token) || text[0] != '/' || strlen(text) >= sizeof read.path)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: what is offered is none");
    strcpy(read.path, text);
    *offer = read;
    return MR_OK;
}

void mr_shm_host(char host[40]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    host[0] = 0;
    if (file && fgets(host, 40, file))
        host[strcspn(host, "\n")] = 0;
    if (file)
        fclose(file);
}
