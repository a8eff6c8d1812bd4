/* Where the system keeps the certificates of authorities. TLS libraries know only the place of the system that they
 * were built for: those in a Python wheel run on others. Any thread. */
#pragma once

/* A file for a TLS library to trust: the one that SSL_CERT_FILE names, else the system's. NULL: the system has it where
 * Debian has it, or nowhere; the library's own default serves. */
const char *mr_authorities(void);
