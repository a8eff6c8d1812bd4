#include "engine/serve/http_permission.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "engine/serve/http_address.h"
#include "engine/serve/http_token.h"
#include "millrace/status.h"

enum { NAME_DIGITS = 8 };

const char mr_http_login_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>millrace</title>\n<style>\n"
    ":root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }\n"
    "form { max-width: 22rem; margin: 20vh auto; padding: 0 1rem; display: grid; gap: .6rem; }\n"
    "input, button { font: inherit; padding: .4rem; }\n"
    "</style>\n</head>\n<body>\n<form>\n<label for=\"token\">The token of this server</label>\n"
    "<input autocomplete=\"username\" value=\"millrace\" hidden>\n"
    "<input id=\"token\" type=\"password\" autocomplete=\"current-password\" required autofocus>\n"
    "<button>Log in</button>\n<p role=\"alert\"></p>\n</form>\n"
    "<noscript>This page needs JavaScript; other clients send Authorization: Bearer TOKEN.</noscript>\n<script>\n"
    "if (!location.pathname.endsWith('/')) location.replace(location.pathname + '/');\n" /* as in the pages */
    "const form = document.querySelector('form'), alert = document.querySelector('[role=alert]');\n"
    "form.onsubmit = async event => {\n"
    "  event.preventDefault();\n"
    "  const token = document.querySelector('#token').value.trim();\n"
    "  try {\n"
    "    const answer = await fetch('login', {method: 'POST', headers: {'X-Millrace': '1', Authorization: 'Bearer ' + "
    "token}});\n"
    "    if (answer.ok) location.reload();\n"
    "    else alert.textContent = answer.status === 401 ? 'This is not the token.' : await answer.text();\n"
    "  } catch (error) { alert.textContent = error.message; }\n"
    "};\n"
    "</script>\n</body>\n</html>\n";

/* The digits of a cookie's part, which differ from those of the other part and from the token's sum. */
static int derive(const char *token, const char *part, char digits[MR_SHA256_TEXT]) {
    mr_sha256 *sum;
    int status = mr_sha256_begin(&sum);
    if (status)
        return status;
    mr_sha256_add(sum, "millrace ", strlen("millrace "));
    mr_sha256_add(sum, part, strlen(part));
    mr_sha256_add(sum, token, strlen(token));
    mr_sha256_finish(&sum, digits);
    return MR_OK;
}

int mr_http_permission_init(mr_http_permission *permission, const char *token, const char *const *hosts, bool any_host,
                            bool secure) {
    char digits[MR_SHA256_TEXT];
    *permission = (mr_http_permission){.hosts = hosts, .any_host = any_host};
    if (!token)
        return MR_OK;
    permission->token = mr_strdup(token);
    int status = permission->token ? derive(token, "name ", digits) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status) {
        snprintf(permission->name, sizeof permission->name, "millrace-%.*s", NAME_DIGITS, digits);
        status = derive(token, "cookie ", permission->value);
    }
    if (!status)
        snprintf(permission->cookie, sizeof permission->cookie, "%s=%s; Path=/; HttpOnly; SameSite=Lax%s",
                 permission->name, permission->value, secure ? "; Secure" : "");
    return status;
}

void mr_http_permission_fini(mr_http_permission *permission) {
    mr_http_token_forget(&permission->token);
    explicit_bzero(permission, sizeof *permission);
}

static const char *header(struct MHD_Connection *request, const char *name) {
    return MHD_lookup_connection_value(request, MHD_HEADER_KIND, name);
}

bool mr_http_has_token_in_url(const mr_http_permission *permission, struct MHD_Connection *request) {
    const char *given = MHD_lookup_connection_value(request, MHD_GET_ARGUMENT_KIND, "token");
    return permission->token && given && mr_http_token_is(permission->token, given);
}

bool mr_http_has_token(const mr_http_permission *permission, struct MHD_Connection *request) {
    static const char scheme[] = "Bearer ";
    if (!permission->token)
        return true;
    const char *given = header(request, "Authorization");
    const char *cookie = MHD_lookup_connection_value(request, MHD_COOKIE_KIND, permission->name);
    if (given && strncasecmp(given, scheme, sizeof scheme - 1) == 0)
        return mr_http_token_is(permission->token, given + sizeof scheme - 1);
    return (cookie && mr_http_token_is(permission->value, cookie)) || mr_http_has_token_in_url(permission, request);
}

/* Whether a Host header's name, with any port, is one of those that the server may have. */
static bool is_ours(const mr_http_permission *permission, const char *host) {
    const char *colon = strrchr(host, ':');
    const size_t bytes = colon && !strchr(colon, ']') ? (size_t)(colon - host) : strlen(host);
    for (const char *const *name = permission->hosts; name && *name; name++)
        if (strlen(*name) == bytes && strncasecmp(*name, host, bytes) == 0)
            return true;
    return mr_http_host_is_local(host);
}

typedef struct host_check {
    const mr_http_permission *permission;
    bool foreign;
} host_check;

static enum MHD_Result check_host(void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
    host_check *check = context;
    if (strcasecmp(key, "Host") == 0 && (!value || !is_ours(check->permission, value)))
        check->foreign = true;
    return MHD_YES;
}

/* Every Host header counts: clients and proxies take different ones. */
bool mr_http_has_other_host(const mr_http_permission *permission, struct MHD_Connection *request) {
    host_check check = {.permission = permission};
    if (!permission->any_host && (!permission->token || permission->hosts))
        MHD_get_connection_values(request, MHD_HEADER_KIND, check_host, &check);
    return check.foreign;
}

/* A page of this server has an Origin that ends with the Host. */
bool mr_http_is_forged(struct MHD_Connection *request) {
    const char *origin = header(request, "Origin"), *host = header(request, "Host");
    const char *name = origin ? strstr(origin, "://") : NULL;
    return !header(request, "X-Millrace") || (origin && (!name || !host || strcasecmp(name + 3, host) != 0));
}

bool mr_http_wants_page(struct MHD_Connection *request) {
    const char *accepted = header(request, "Accept");
    return accepted && strstr(accepted, "text/html");
}
