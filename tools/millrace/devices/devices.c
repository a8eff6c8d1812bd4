/* millrace devices: lists the devices, with the reason if one cannot be used. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/devices/devices.h"

#include "tools/millrace/cli/command.h"

typedef struct arguments {
    bool json, models;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("models", NULL, arguments, models,
              "lists the cards whose figures simulated devices and plans can take (sim:0?like=NAME, "
              "plan --assume cuda:COUNTxNAME) instead of the devices of this machine"),
    MR_OPTION("json", NULL, arguments, json,
              "one JSON object: cpu, cuda (with `devices` and `findings`), sim. Sizes are in bytes, loads in per cent, "
              "temperatures in degrees Celsius. An unknown value is null. With --models the object has `models`, in "
              "bytes, bytes and operations a second, and ns"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"", "--json", "--models", NULL};

static const mr_usage usage = {
    .verb = "devices",
    .synopsis = "",
    .help = "Shows the devices that `device` in a stage can name on this machine: the processors, every NVIDIA GPU "
            "with its memory, compute capability, video decoders, load and the GPUs that it reaches, and simulated "
            "devices. If a GPU cannot be used, the reason and the remedy follow. The command needs no driver, no GPU "
            "and no build with CUDA. The exit code is 0 whatever it finds.",
    .options = options,
    .examples = examples,
};

static int show_models(bool json) {
    int status = json ? mr_devices_put_models(stdout) : mr_devices_print_models(stdout);
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

static int show(bool json) {
    const mr_machine *machine;
    int status = mr_machine_open(&machine);
    if (!status && json)
        status = mr_devices_put_json(machine, stdout);
    else if (!status)
        mr_devices_print(machine, stdout);
    mr_machine_close(&machine);
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    int code = 0;
    arguments given = {.json = false};
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    return given.models ? show_models(given.json) : show(given.json);
}

const mr_verb mr_devices_verb = {&usage, "show the devices of this machine, and why one cannot be used", run_verb};
