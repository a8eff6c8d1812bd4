/* Encodes on a device: with the hardware encoder if that supports the pictures, which then stay in device memory.
 * Otherwise they are downloaded and encoded in software.
 *
 * Each picture is copied on the call's stream to an encoder surface or to host memory. The call that starts the copy
 * must be repeated until it is done. The encoder therefore never holds buffers from earlier stages. One thread at a
 * time. */
#pragma once

#include "stages/encode/encode_codec.h"
#include "stages/encode/encode_picture.h"
#include "stages/media/media_hardware.h"

typedef struct mr_encode_device mr_encode_device;

/* As mr_stage_type.check_input, after check_device. */
int mr_encode_device_check_input(const mr_encode_params *params, const mr_format_set *pictures, const char *device,
                                 bool *otherwise);

int mr_encode_device_create(mr_encode_device **device, mr_stage *self);
/* Call after all work is done. Sets the pointer to NULL; accepts NULL. */
void mr_encode_device_destroy(mr_encode_device **device);

/* Opens the device's encoder for pictures with `format`. MR_OK with *codec NULL: software must encode; the reason is
 * logged once per source. MR_ERROR_UNAVAILABLE if hardware is required and missing. */
int mr_encode_device_open(mr_encode_device *device, mr_io *io, const mr_encode_params *params, const mr_format *format,
                          AVRational rate, AVCodecContext **codec);
/* Call after the encoder was closed. */
void mr_encode_device_close(mr_encode_device *device);

/* Moves the call's picture to where it is encoded. MR_ERROR_AGAIN: repeat the call a little later. */
int mr_encode_device_bring(mr_encode_device *device, mr_io *io, const mr_frame *frame);
/* Fills `wrapped`, which must be empty, with the moved picture. `picture`: for software. Errors: as
 * mr_encode_picture_lend. */
int mr_encode_device_lend(mr_encode_device *device, mr_encode_picture *picture, AVFrame *wrapped);
