/* An imitated board (board.c): how it fails, and what it did. */
#pragma once

#include <stdint.h>

typedef struct fake_board {
    uint32_t layout;     /* the pictures' fourcc; 0: NV12 */
    int start_error;     /* an errno: STREAMON on the pictures' side fails */
    int open_error;      /* an errno: open fails, except for the first time, which only asks what it can do */
    const char *bus;     /* the node's, as in "usb"; NULL: not known */
    int opened;          /* how often the node was opened */
    int silent;          /* it takes packets and gives no picture */
    int pictures_left;   /* 0: no limit; otherwise it fails when so many have been given */
    int hangs_after;     /* 0: never; otherwise no wait returns when so many have been given */
    int bad_every;       /* 0: none; otherwise each N-th picture is marked as damaged */
    int given, sessions; /* pictures; how often streaming was started */
} fake_board;

/* Tests set it before a run. In a preloaded library $FAKE_BOARD_START_ERROR sets start_error, and
 * $FAKE_BOARD_HANGS_AFTER sets hangs_after. */
extern fake_board fake_board_here;
