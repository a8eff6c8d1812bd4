/* A page of text on the terminal, renewed in place. One thread. */
#pragma once

#include <stdbool.h>

/* Takes the terminal: the alternate screen, no cursor, keys without Enter. False: standard output is not a terminal
 * that can do this. SIGINT, SIGTERM and SIGHUP then end mr_screen_wait; call mr_screen_end before leaving. */
bool mr_screen_begin(void);
void mr_screen_end(void);

/* Shows as many lines of `text` as there is room for, from line `first` on, each cut at the terminal's width; the first
 * `fixed` lines always stay. Returns the greatest useful `first`. */
int mr_screen_show(const char *text, int fixed, int first);

typedef enum mr_screen_key {
    MR_KEY_NONE, /* the time is over, or the terminal has another size */
    MR_KEY_QUIT, /* q, or a signal */
    MR_KEY_UP, MR_KEY_DOWN, MR_KEY_PAGE_UP, MR_KEY_PAGE_DOWN, MR_KEY_TOP,
    MR_KEY_PAUSE /* p or the space bar */
} mr_screen_key;
/* Waits for a key for at most that time. */
mr_screen_key mr_screen_wait(int timeout_ms);
/* Whether such a signal has come. */
bool mr_screen_ended(void);
/* The lines of a page. */
int mr_screen_lines(void);
