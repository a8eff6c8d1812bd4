#include "engine/base/authorities.h"

#include <stdlib.h>
#include <unistd.h>

const char *mr_authorities(void) {
    static const char debian[] = "/etc/ssl/certs/ca-certificates.crt";
    static const char *const others[] = {
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, Red Hat */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* the same, newer */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem"};                                /* Alpine, Arch */
    const char *named = getenv("SSL_CERT_FILE");
    if (named && *named)
        return named;
    for (size_t i = 0; i < sizeof others / sizeof others[0] && access(debian, R_OK); i++)
        if (access(others[i], R_OK) == 0)
            return others[i];
    return NULL;
}
