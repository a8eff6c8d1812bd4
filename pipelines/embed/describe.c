/* A tool that needs only the public headers. It lists this machine's devices, the stage types with their options, and a
 * model if you name a file. With --schema it prints the JSON Schema of pipelines instead.
 *
 *     cc describe.c $(pkg-config --cflags --libs millrace) -o describe && ./describe model.onnx */
#include <millrace/describe.h>
#include <millrace/devices.h>
#include <millrace/millrace.h>
#include <millrace/model.h>
#include <stdio.h>
#include <string.h>

static int show_devices(void) {
    const mr_machine *machine;
    int status = mr_machine_open(&machine);
    if (status)
        return status;
    printf("device cpu: %d of %d cores, kernels %s\n", machine->usable_cores, machine->cores,
           mr_kernel_isa());
    for (size_t i = 0; i < machine->gpu_count; i++)
        printf("device %s: %s%s\n", machine->gpus[i].name, machine->gpus[i].model,
               machine->gpus[i].usable ? "" : ", cannot be used");
    for (size_t i = 0; i < machine->finding_count; i++)
        printf("finding %s: %s\n", machine->findings[i].code, machine->findings[i].what);
    mr_machine_close(&machine);
    return MR_OK;
}

static void show_types(void) {
    char text[MR_OPTION_TEXT];
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++) {
        printf("%s %s: %s\n", (*type)->inputs ? "stage" : "source", (*type)->name, (*type)->summary);
        for (const mr_option *option = (*type)->options; option && option->name; option++)
            printf("  %s: %s\n", option->name, mr_option_describe(option, text, sizeof text));
    }
}

static int show_model(const char *path) {
    const mr_model_view *model;
    int status = mr_model_view_open(&model, path);
    if (status)
        return status;
    printf("model %s: %zu nodes, %.0f multiply-adds\n", path, model->node_count, model->multiply_adds);
    for (size_t i = 0; i < model->input_count; i++)
        printf("  takes %s: %s\n", model->inputs[i].name, model->inputs[i].type ? model->inputs[i].type : "no tensor");
    mr_model_view_close(&model);
    return MR_OK;
}

int main(int argc, char **argv) {
    int status;
    if (argc > 1 && strcmp(argv[1], "--schema") == 0) {
        status = mr_schema_print(mr_stage_types(), stdout);
    } else {
        status = show_devices();
        show_types();
        for (int i = 1; i < argc && !status; i++)
            status = show_model(argv[i]);
    }
    if (status)
        fprintf(stderr, "describe: %s\n", mr_message());
    return mr_status_exit_code(status);
}
