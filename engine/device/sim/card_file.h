/* Figures of a card from a file: for card.c only. */
#pragma once

#include "engine/device/sim/card.h"

/* What the header of card.h describes. Errors of mr_file_read; MR_ERROR_DATA, with the file and what is wrong. */
int mr_card_read(const char *path, mr_card *card);
