/* Offers and tokens as text: "HOST PATH" and "HOST TOKEN", the token as 32 hexadecimal digits. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/file.h"
#include "engine/transport/shm/shm.h"
#include "millrace/status.h"

enum { TOKEN = sizeof ((mr_shm_guest *)0)->token, HOST = sizeof ((mr_shm_guest *)0)->host };

/* Reads the host, and moves *text past it. False if it does not fit, or nothing follows. */
static bool take_host(const char **text, char host[HOST]) {
    size_t length = strcspn(*text, " ");
    if (length >= HOST || (*text)[length] != ' ')
        return false;
    memcpy(host, *text, length);
    host[length] = 0;
    *text += length + 1;
    return true;
}

const char *mr_shm_offer_print(const mr_shm_offer *offer, char text[MR_SHM_TEXT]) {
    snprintf(text, MR_SHM_TEXT, "%s %s", offer->host, offer->path);
    return text;
}

int mr_shm_offer_parse(const char *text, mr_shm_offer *offer) {
    mr_shm_offer read = {.path = ""};
    if (!take_host(&text, read.host) || text[0] != '/' || strlen(text) >= sizeof read.path)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: malformed offer");
    strcpy(read.path, text);
    *offer = read;
    return MR_OK;
}

const char *mr_shm_guest_print(const mr_shm_guest *guest, char text[MR_SHM_TEXT]) {
    int length = snprintf(text, MR_SHM_TEXT, "%s ", guest->host);
    for (int i = 0; i < TOKEN; i++)
        snprintf(text + length + 2 * i, 3, "%02x", guest->token[i]);
    return text;
}

int mr_shm_guest_parse(const char *text, mr_shm_guest *guest) {
    mr_shm_guest read = {.host = ""};
    if (!take_host(&text, read.host) || strlen(text) != 2 * TOKEN || strspn(text, "0123456789abcdef") != 2 * TOKEN)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: malformed peer token");
    for (int i = 0; i < TOKEN; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        read.token[i] = (uint8_t)byte;
    }
    *guest = read;
    return MR_OK;
}

int mr_shm_guest_make(mr_shm_guest *guest) {
    mr_shm_host(guest->host);
    if (getrandom(guest->token, TOKEN, 0) == TOKEN)
        return MR_OK;
    return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: getrandom: %s", strerror(errno));
}

void mr_shm_host(char host[HOST]) {
    mr_file_head(host, HOST, "/proc/sys/kernel/random/boot_id");
    host[strcspn(host, "\n")] = 0;
}
