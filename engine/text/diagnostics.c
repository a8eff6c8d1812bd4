#include "millrace/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/url.h"
#include "millrace/status.h"

/* More than are shown, since those that are shown are the first by place. */
enum { MOST_COLLECTED = 2 * MR_DIAGNOSTICS_SHOWN };

/* Room doubles at powers of two, so that the public struct needs no capacity. */
static int grow(mr_diagnostics *diagnostics) {
    size_t count = diagnostics->count;
    if (count & (count - 1))
        return MR_OK;
    mr_diagnostic *item = realloc(diagnostics->item, (count ? 2 * count : 1) * sizeof *item);
    if (!item)
        return mr_fail(MR_ERROR_MEMORY, "no memory for another diagnostic");
    diagnostics->item = item;
    return MR_OK;
}

static void free_item(mr_diagnostic *item) {
    free((char *)item->place.file);
    free(item->message);
    free(item->hint);
}

bool mr_diagnostics_full(const mr_diagnostics *diagnostics) {
    return diagnostics->count >= MOST_COLLECTED;
}

int mr_diagnose(mr_diagnostics *diagnostics, mr_severity severity, int status, mr_location place, const char *hint,
                const char *format, ...) {
    char *message = NULL;
    /* The first error is always kept: its status is the answer. */
    if (mr_diagnostics_full(diagnostics) && (severity == MR_SEVERITY_WARNING || diagnostics->errors > 0)) {
        diagnostics->errors += severity == MR_SEVERITY_ERROR;
        diagnostics->more++;
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&message, format, arguments) < 0)
        message = NULL;
    va_end(arguments);
    /* An error that memory is too short to keep still counts; mr_diagnostics_status then speaks of memory. */
    diagnostics->errors += severity == MR_SEVERITY_ERROR;
    if (!message || grow(diagnostics)) {
        free(message);
        return status;
    }
    /* The file's name is copied: diagnostics are read after the specification they speak of is gone. */
    place.file = place.file ? strdup(place.file) : NULL;
    mr_url_hide(message);
    if (place.file) /* it may be an argument's text */
        mr_url_hide((char *)place.file);
    diagnostics->item[diagnostics->count++] = (mr_diagnostic){
        .severity = severity,
        .status = status,
        .place = place,
        .message = message,
        .hint = hint ? strdup(hint) : NULL,
    };
    return status;
}

static int compare(const mr_diagnostic *a, const mr_diagnostic *b) {
    const mr_location *p = &a->place, *q = &b->place;
    int files = strcmp(p->file ? p->file : "", q->file ? q->file : "");
    if (files)
        return files;
    if (p->line != q->line)
        return p->line < q->line ? -1 : 1;
    return (p->column > q->column) - (p->column < q->column);
}

/* A merge sort keeps the order of those at one place; qsort does not. */
static void merge_sort(mr_diagnostic *item, mr_diagnostic *spare, size_t count) {
    if (count < 2)
        return;
    size_t half = count / 2;
    merge_sort(item, spare, half);
    merge_sort(item + half, spare, count - half);
    memcpy(spare, item, half * sizeof *item);
    for (size_t i = 0, left = 0, right = half; left < half; i++) {
        bool take_left = right == count || compare(&spare[left], &item[right]) <= 0;
        item[i] = take_left ? spare[left++] : item[right++];
    }
}

void mr_diagnostics_sort(mr_diagnostics *diagnostics) {
    mr_diagnostic *spare = malloc(diagnostics->count / 2 * sizeof *spare + 1);
    if (!spare)
        return;
    merge_sort(diagnostics->item, spare, diagnostics->count);
    free(spare);
}

void mr_diagnostics_cap(mr_diagnostics *diagnostics, size_t most) {
    size_t errors = 0, kept = 0;
    for (size_t i = 0; i < diagnostics->count; i++)
        errors += diagnostics->item[i].severity == MR_SEVERITY_ERROR;
    size_t room[] = {[MR_SEVERITY_WARNING] = most > errors ? most - errors : 0, [MR_SEVERITY_ERROR] = most};
    for (size_t i = 0; i < diagnostics->count; i++) {
        mr_diagnostic *item = &diagnostics->item[i];
        if (room[item->severity] > 0) {
            room[item->severity]--;
            diagnostics->item[kept++] = *item;
        } else {
            free_item(item);
        }
    }
    diagnostics->more += diagnostics->count - kept;
    diagnostics->count = kept;
}

int mr_diagnostics_status(const mr_diagnostics *diagnostics) {
    for (size_t i = 0; i < diagnostics->count; i++)
        if (diagnostics->item[i].severity == MR_SEVERITY_ERROR)
            return diagnostics->item[i].status;
    return diagnostics->errors ? MR_ERROR_MEMORY : MR_OK;
}

static void print_place(const mr_location *place, FILE *stream) {
    if (!place->file)
        return;
    if (place->line > 0)
        mr_print(stream, "%s:%d:%d: ", place->file, place->line, place->column);
    else
        mr_print(stream, "%s: ", place->file);
}

void mr_diagnostics_print(const mr_diagnostics *diagnostics, FILE *stream) {
    for (size_t i = 0; i < diagnostics->count; i++) {
        const mr_diagnostic *item = &diagnostics->item[i];
        print_place(&item->place, stream);
        mr_print(stream, "%s: %s\n", item->severity == MR_SEVERITY_ERROR ? "error" : "warning", item->message);
        if (item->hint)
            mr_print(stream, "    hint: %s\n", item->hint);
    }
    if (diagnostics->more > 0)
        fprintf(stream, "%zu more errors and warnings are not shown\n", diagnostics->more);
}

void mr_diagnostics_fini(mr_diagnostics *diagnostics) {
    for (size_t i = 0; i < diagnostics->count; i++)
        free_item(&diagnostics->item[i]);
    free(diagnostics->item);
    *diagnostics = (mr_diagnostics){0};
}
