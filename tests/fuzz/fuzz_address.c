/* Any text as a URL, a host, a listening address, and a pipeline value. Nothing may crash, parts must lie within the
 * text, and no text for display may contain a password. A zero separates a second text: a reference, or a host pattern.
 *
 *     tests/fuzz/run 60 fuzz_address */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/url.h"
#include "engine/serve/http_address.h"
#include "engine/text/yaml.h"
#include "millrace/diagnostics.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"

static void look_within(const char *text, mr_url_part part) {
    const size_t length = strlen(text);
    fault_if(part.text && (part.text < text || part.text + part.bytes > text + length));
}

static void split(const char *text) {
    mr_url url;
    char decoded[MR_URL_BYTES], encoded[MR_URL_BYTES], again[MR_URL_BYTES];
    if (!mr_url_split(text, &url))
        return;
    const mr_url_part parts[] = {url.scheme, url.user, url.password, url.host, url.port, url.rest};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        look_within(text, parts[i]);
        if (!parts[i].text || !mr_url_decode(parts[i], decoded, sizeof decoded) ||
            !mr_url_encode(decoded, encoded, sizeof encoded))
            continue;
        fault_if(!mr_url_decode((mr_url_part){encoded, strlen(encoded)}, again, sizeof again) ||
                 strcmp(again, decoded) != 0);
    }
    look_within(text, mr_url_query(&url, "passphrase"));
}

/* Whether there is one way to read a URL: it holds no other one, and no blanks. */
static bool holds_one(const char *text) {
    const char *mark = strstr(text, "://");
    return mark && !strstr(mark + 1, "://") && !strpbrk(text, " \t\r\n");
}

/* What is shown has no password, and is no longer than the text. In a log line a blank, a quote, a
 * bracket and another URL end one. */
static void hide(const char *text) {
    char *shown = strdup(text);
    mr_url url;
    fault_if(!shown);
    mr_url_hide(shown);
    fault_if(strlen(shown) > strlen(text));
    fault_if(holds_one(text) && !strpbrk(text, "\"<>") && mr_url_split(shown, &url) && url.password.bytes);
    free(shown);
}

static void resolve(const char *base, const char *reference) {
    char url[MR_URL_BYTES], whole[MR_URL_BYTES];
    mr_url parts;
    fault_if(mr_url_resolve("http://host/a/b?c", base, url, sizeof url) && !mr_url_split(url, &parts) &&
             mr_url_has_scheme(url, "http"));
    if (mr_url_split(base, &parts))
        (void)mr_url_resolve(base, reference, url, sizeof url);
    (void)mr_url_with_user(base, reference, reference, whole, sizeof whole);
    (void)mr_host_is_allowed(reference, base);
    (void)mr_url_doubt_of(base);
}

static void listen_at(const char *text) {
    mr_http_address address;
    int status = mr_http_address_parse(text, &address);
    fault_if(status == MR_OK && address.bytes == 0);
    fuzz_expect_reason(status);
    (void)mr_http_host_is_local(text);
}

static void take_credentials(const char *text) {
    mr_arena arena = {0};
    mr_diagnostics wrong = {0};
    mr_yaml node = {.kind = MR_YAML_SCALAR, .text = text, .quoted = true};
    int status = mr_yaml_take_credentials(&node, &arena, &wrong);
    mr_url url;
    const bool taken = status == MR_OK && !node.broken && !mr_url_has_scheme(text, "ipc");
    fault_if(taken && holds_one(text) && mr_url_split(node.text, &url) && url.password.text);
    mr_diagnostics_fini(&wrong);
    mr_arena_fini(&arena);
}

FUZZ(data, bytes) {
    char *text = (char *)fuzz_copy(data, bytes, 2);
    const char *second = text + strlen(text) + (strlen(text) < bytes);
    split(text);
    hide(text);
    resolve(text, second);
    listen_at(text);
    take_credentials(text);
    free(text);
}
