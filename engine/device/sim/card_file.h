/* A card's figures from a file: for card.c only. */
#pragma once

#include "engine/device/sim/card.h"

/* Reads what card.h describes. Errors from mr_file_read; MR_ERROR_DATA, with the file and what is wrong. */
int mr_card_read(const char *path, mr_card *card);
