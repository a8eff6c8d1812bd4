/* Makes a graph's picture with Graphviz's program `dot`. */
#include "engine/base/file.h"
#include "millrace/status.h"
#include "tools/millrace/cli/exec.h"
#include "tools/millrace/graph/graph_print.h"

enum { MOST_PICTURE = 1 << 30 };

static int run_dot(const char *kind, FILE *from, FILE *stream) {
    char option[16];
    const char *const words[] = {"dot", option, NULL};
    const mr_exec call = {.words = words, .package = "graphviz, or take --format dot to another machine",
                          .input = from, .most = MOST_PICTURE};
    mr_exec_result picture;
    snprintf(option, sizeof option, "-T%s", kind);
    int status = mr_exec_run(&call, &picture);
    if (!status && picture.code)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "Graphviz's dot cannot make %s of this graph: %s", kind, picture.err);
    else if (!status)
        fwrite(picture.out, 1, picture.out_bytes, stream);
    mr_exec_fini(&picture);
    return status;
}

int mr_chart_picture(const mr_chart *graph, const char *kind, FILE *stream) {
    FILE *text = tmpfile();
    int status = text ? mr_chart_dot(graph, text) : mr_file_fail("write", "a temporary file");
    if (!status && fflush(text))
        status = mr_file_fail("write", "a temporary file");
    if (!status) {
        rewind(text);
        status = run_dot(kind, text, stream);
    }
    if (text)
        fclose(text);
    return status;
}
