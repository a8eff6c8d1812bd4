/* Colours for classes and tracks: the same number always gets the same colour, and neighbours differ clearly. Pure
 * functions. */
#pragma once

#include <stdint.h>

#include "stages/sketch/sketch.h"

mr_ink mr_ink_of(uint64_t number, uint8_t opacity);
/* Black or white, whichever is easier to read on the ink. */
mr_ink mr_ink_on(mr_ink ink);
/* A text's number, for a class without one. */
uint64_t mr_ink_number(const char *text);
