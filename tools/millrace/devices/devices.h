/* Shared by the files for `millrace devices`. */
#pragma once

#include <stdio.h>

#include "millrace/devices.h"

/* devices_text.c */
void mr_devices_print(const mr_machine *machine, FILE *stream);
/* devices_json.c: one JSON object. */
int mr_devices_put_json(const mr_machine *machine, FILE *stream);

/* devices_models.c: the cards that `like` accepts; as JSON, an object with "models". */
int mr_devices_print_models(FILE *stream);
int mr_devices_put_models(FILE *stream);
