/* Sources and stages. */
#pragma once

#include "engine/spec/spec_parser.h"

/* The keys that every source and every stage has. */
extern const mr_option mr_source_keys[], mr_stage_keys[];

/* Reads one source or stage whose id and node are set. */
int mr_spec_read_vertex(mr_spec_parser *parser, mr_spec_vertex *vertex);
/* The type that a source's or stage's map names, or that the id names; NULL if there is none. Reports nothing. */
const mr_type_entry *mr_spec_type_of(const mr_spec_parser *parser, const mr_yaml *node, bool is_source);
