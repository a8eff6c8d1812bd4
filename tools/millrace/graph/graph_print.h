/* Writes a chart (graph_model.h): as text, or as DOT, of which Graphviz makes a picture. MR_OK or MR_ERROR_MEMORY; the
 * caller checks the stream for errors. */
#pragma once

#include <stdio.h>

#include "tools/millrace/graph/graph_model.h"

int mr_chart_text(const mr_chart *graph, FILE *stream);
int mr_chart_dot(const mr_chart *graph, FILE *stream);
/* Makes a picture of this kind ("svg", "png", "pdf") with Graphviz's dot. MR_ERROR_UNAVAILABLE: dot is missing. */
int mr_chart_picture(const mr_chart *graph, const char *kind, FILE *stream);
