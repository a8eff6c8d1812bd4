#include "kernels/metrics/assignment.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Each row also has a separate column after the real ones, whose cost is the limit. Numbers count from 1, as 0 is the
 * row being placed. */
typedef struct search {
    const double *cost;
    size_t rows, columns, all;
    double limit;
    double *of_row, *of_column; /* potentials */
    double *least;              /* for each column, the least cost of reaching it */
    size_t *owner, *from;       /* each column's row; the column before it on the path */
    bool *done;
} search;

size_t mr_assignment_bytes(size_t rows, size_t columns) {
    const size_t all = rows + columns + 1;
    return (rows + 1) * sizeof(double) + all * (2 * sizeof(double) + 2 * sizeof(size_t) + sizeof(bool)) + 64;
}

static double cost_of(const search *s, size_t row, size_t column) {
    if (column <= s->columns)
        return fmin(s->cost[(row - 1) * s->columns + column - 1], 2 * s->limit + 1);
    return column - s->columns == row ? s->limit : INFINITY;
}

/* One step of Dijkstra's search: the nearest column that was not visited. */
static size_t advance(search *s, size_t column) {
    const size_t row = s->owner[column];
    size_t nearest = 0;
    double least = INFINITY;
    s->done[column] = true;
    for (size_t j = 1; j < s->all; j++) {
        if (s->done[j])
            continue;
        const double reached = cost_of(s, row, j) - s->of_row[row] - s->of_column[j];
        if (reached < s->least[j]) {
            s->least[j] = reached;
            s->from[j] = column;
        }
        if (s->least[j] < least) {
            least = s->least[j];
            nearest = j;
        }
    }
    for (size_t j = 0; j < s->all; j++)
        if (s->done[j]) {
            s->of_row[s->owner[j]] += least;
            s->of_column[j] -= least;
        } else {
            s->least[j] -= least;
        }
    return nearest;
}

static void place_row(search *s, size_t row) {
    size_t column = 0;
    s->owner[0] = row;
    memset(s->done, 0, s->all * sizeof *s->done);
    for (size_t j = 0; j < s->all; j++)
        s->least[j] = INFINITY;
    do
        column = advance(s, column);
    while (s->owner[column]);
    for (; column; column = s->from[column])
        s->owner[column] = s->owner[s->from[column]];
}

void mr_assign(const double *cost, size_t rows, size_t columns, double limit, int *column, void *workspace) {
    search s = {.cost = cost, .rows = rows, .columns = columns, .all = rows + columns + 1, .limit = limit};
    memset(workspace, 0, mr_assignment_bytes(rows, columns));
    s.of_row = workspace;
    s.of_column = s.of_row + rows + 1;
    s.least = s.of_column + s.all;
    s.owner = (size_t *)(s.least + s.all);
    s.from = s.owner + s.all;
    s.done = (bool *)(s.from + s.all);
    for (size_t i = 1; i <= rows; i++)
        place_row(&s, i);
    for (size_t i = 0; i < rows; i++)
        column[i] = -1;
    for (size_t j = 1; j <= columns; j++)
        if (s.owner[j])
            column[s.owner[j] - 1] = (int)j - 1;
}
