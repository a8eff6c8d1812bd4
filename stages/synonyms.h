/* Other programs' words for the stage types in list.h and their options. mr_media_source holds the table. */
#pragma once

#include "engine/text/synonyms.h"

extern const mr_synonym mr_synonym_table[];
