/* Shared by the files for `millrace devices`. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/devices.h"

/* devices_text.c */
void mr_devices_print(const mr_machine *machine, FILE *stream);
/* devices_json.c: one JSON object's members. */
void mr_devices_put_json(yajl_gen json, const mr_machine *machine);

/* devices_models.c: the cards that `like` knows; in JSON the member "models". */
int mr_devices_print_models(FILE *stream);
void mr_devices_put_models(yajl_gen json);
