/* User and password for Adobe's RTMP servers ("authmod=adobe"). The server refuses a connection with a challenge; the
 * next connection must answer it in the application's query. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the query ("?authmod=adobe&..") that answers a refusal with this description. `nonce`: a random number. False
 * if no password is requested, or in another way, or if the query does not fit. */
bool mr_rtmp_answer(const char *description, const char *user, const char *password, uint32_t nonce, char *query,
                    size_t room);
