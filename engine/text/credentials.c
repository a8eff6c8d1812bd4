/* User and password in a tree's URLs (yaml.h). */
#include <string.h>

#include "engine/base/url.h"
#include "engine/text/yaml.h"
#include "millrace/status.h"

static const char *decoded(mr_arena *arena, mr_url_part part, bool *wrong) {
    char text[MR_URL_BYTES];
    if (!part.text)
        return NULL;
    if (!mr_url_decode(part, text, sizeof text)) {
        *wrong = true;
        return "";
    }
    return mr_arena_text(arena, text, strlen(text));
}

/* The rest of srt://host:port?a=b&passphrase=c without the passphrase, whose value is `secret`. */
static const char *without(mr_arena *arena, const char *url, mr_url_part secret) {
    static const char name[] = "passphrase=";
    const char *from = secret.text - (sizeof name - 1), *to = secret.text + secret.bytes;
    /* The sign before it must go too, or the one after it if it is the first. */
    if (*to == '&')
        to++;
    else
        from--;
    return mr_arena_print(arena, "%.*s%s", (int)(from - url), url, to);
}

/* A text that may hold a password in a place where no URL has it. It is shown nowhere, and goes nowhere. */
static int refuse(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics, mr_url_doubt doubt) {
    char *text = mr_arena_text(arena, node->text, strlen(node->text));
    if (!text)
        return MR_ERROR_MEMORY;
    mr_url_hide(text);
    node->text = text;
    node->broken = true;
    return mr_diagnose(diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, node->place,
                       doubt == MR_URL_SIGNS ? "in a password write / as %2F, ? as %3F, # as %23 and @ as %40, or give "
                                               "`user` and `password_file`; in a path write @ as %40"
                                             : "write SCHEME://USER:PASSWORD@HOST/PATH",
                       doubt == MR_URL_SIGNS ? "this URL has a user, and an \"@\" after its host: where the password "
                                               "ends is not clear"
                                             : "this looks like a URL with a password, but has no \"://\"");
}

int mr_yaml_take_credentials(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics) {
    mr_url url;
    bool wrong = false;
    if (node->kind != MR_YAML_SCALAR || !node->text || node->broken)
        return MR_OK;
    const mr_url_doubt doubt = mr_url_doubt_of(node->text);
    if (doubt)
        return refuse(node, arena, diagnostics, doubt);
    if (!mr_url_split(node->text, &url))
        return MR_OK;
    /* "ipc://@name" is a socket with that name. */
    if (mr_url_has_scheme(node->text, "ipc"))
        return MR_OK;
    mr_url_part secret = mr_url_has_scheme(node->text, "srt") ? mr_url_query(&url, "passphrase") : (mr_url_part){0};
    if (!url.user.text && !secret.text)
        return MR_OK;
    const char *text = node->text;
    if (secret.text) {
        node->password = decoded(arena, secret, &wrong);
        node->text = without(arena, text, secret);
    }
    /* The query comes after user and host, which have not moved. */
    if (url.user.text) {
        const char *host = url.password.text ? url.password.text + url.password.bytes : url.user.text + url.user.bytes;
        node->user = decoded(arena, url.user, &wrong);
        node->password = secret.text ? node->password : decoded(arena, url.password, &wrong);
        node->text = node->text ? mr_arena_print(arena, "%.*s%s", (int)(url.user.text - text), text,
                                                 node->text + (host + 1 - text)) : NULL;
    }
    if (!node->text)
        return MR_ERROR_MEMORY;
    node->broken = wrong;
    return wrong ? mr_diagnose(diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, node->place, NULL,
                               "user or password in this URL are longer than %d bytes, or have a byte of value 0",
                               MR_URL_BYTES - 1)
                 : MR_OK;
}
