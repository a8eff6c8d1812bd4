/* Assigns columns to rows at least total cost (Kuhn, "The Hungarian method", 1955; with potentials, as Jonker and
 * Volgenant, 1987). A pair is allowed if its cost is below a limit: leaving a row alone costs as much as the
 * limit. */
#pragma once

#include <stddef.h>

/* Bytes of workspace for up to this many rows and columns. */
size_t mr_assignment_bytes(size_t rows, size_t columns);
/* `cost`: rows x columns. column[i] becomes the column of row i, or -1. O(rows^2 (rows + columns)). */
void mr_assign(const double *cost, size_t rows, size_t columns, double limit, int *column, void *workspace);
