#include "tools/millrace/cli/complaints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"

static bool refused_by_warnings(const mr_diagnostics *diagnostics, int status, bool deny) {
    return !status && deny && diagnostics->count + diagnostics->more > 0;
}

int mr_complaints_status(const mr_diagnostics *diagnostics, int status, bool deny) {
    return refused_by_warnings(diagnostics, status, deny) ? MR_ERROR_CONFIG : status;
}

/* Prints a reason that no diagnostic gives: warnings were denied, or opening failed without a diagnostic. */
static int conclude(const mr_diagnostics *diagnostics, int status, bool deny) {
    if (refused_by_warnings(diagnostics, status, deny)) {
        mr_fail(MR_ERROR_CONFIG, "warnings are denied (--deny-warnings)");
        mr_command_failed(MR_ERROR_CONFIG);
        return MR_ERROR_CONFIG;
    }
    if (status && diagnostics->errors == 0)
        mr_command_failed(status);
    return status;
}

int mr_complaints_tell(const mr_diagnostics *diagnostics, int status, bool deny) {
    mr_diagnostics_print(diagnostics, stderr);
    return conclude(diagnostics, status, deny);
}

/* ---- GitHub ---------------------------------------------------------------------------------------------------- */

/* A workflow command must be one line; % and two digits stand for a byte. `property`: for text before the second "::",
 * where a colon and a comma are special too. */
static void print_escaped(const char *text, bool property) {
    char *shown = mr_print_new("%s", text);
    for (const char *at = shown; at && *at; at++)
        if (*at == '%' || (property && strchr(":,", *at)))
            printf("%%%02X", (unsigned char)*at);
        else
            putchar(*at);
    free(shown);
}

static void annotate(const mr_diagnostic *item) {
    const mr_location *place = &item->place;
    printf("::%s", item->severity == MR_SEVERITY_ERROR ? "error" : "warning");
    if (place->file && place->line > 0) {
        printf(" file=");
        print_escaped(place->file, true);
        printf(",line=%d,col=%d", place->line, place->column);
    }
    printf("::");
    /* A place without a line is an override, or a file that cannot be read. */
    if (place->file && place->line == 0) {
        print_escaped(place->file, false);
        printf(": ");
    }
    print_escaped(item->message, false);
    if (item->hint) {
        printf("%%0Ahint: ");
        print_escaped(item->hint, false);
    }
    putchar('\n');
}

int mr_complaints_annotate(const mr_diagnostics *diagnostics, int status, bool deny) {
    for (size_t i = 0; i < diagnostics->count; i++)
        annotate(&diagnostics->item[i]);
    if (diagnostics->more > 0)
        printf("::%s::%zu more errors and warnings are not shown\n", diagnostics->errors ? "error" : "warning",
               diagnostics->more);
    return conclude(diagnostics, status, deny);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_position(yajl_gen json, const char *key, int position) {
    if (position > 0) {
        mr_json_integer(json, key, position);
        return;
    }
    mr_json_key(json, key);
    yajl_gen_null(json);
}

static void put_one(yajl_gen json, const mr_diagnostic *item) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "file", item->place.file);
        put_position(json, "line", item->place.line);
        put_position(json, "column", item->place.column);
        mr_json_text(json, "severity", item->severity == MR_SEVERITY_ERROR ? "error" : "warning");
        mr_json_text(json, "message", item->message);
        mr_json_text(json, "hint", item->hint);
        mr_json_text(json, "status", mr_status_words(item->status));
        mr_json_integer(json, "exit_code", mr_status_exit_code(item->status));
    }
}

void mr_complaints_put(yajl_gen json, const mr_diagnostics *diagnostics) {
    MR_JSON_ARRAY(json, "diagnostics")
        for (size_t i = 0; i < diagnostics->count; i++)
            put_one(json, &diagnostics->item[i]);
    mr_json_integer(json, "more", (int64_t)diagnostics->more);
}
