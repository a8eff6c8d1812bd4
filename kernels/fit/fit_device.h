/* The products of fits on devices, in floats or doubles: of linear ones the logits of a chunk of rows, and the gradient
 * of their residuals; of perceptrons any that are brought along. Losses, residuals and all sums stay with the
 * processors.
 *
 * For a linear fit a device keeps the chunks that it has been given once, each also transposed, in at most half of its
 * memory; others are uploaded each time. Which device has a chunk depends on the chunk's block alone. On devices of one
 * kind the bits of a chunk's products are the same on each of them; other kinds sum in another order.
 *
 * Ownership: it owns memory and streams on the devices, which are the caller's and outlive it. Threads: any, each with
 * a lane of its own. Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE. The first failure is kept, and all that follows fails
 * with it (mr_fit_devices_status). */
#ifndef MILLRACE_KERNELS_FIT_FIT_DEVICE_H
#define MILLRACE_KERNELS_FIT_FIT_DEVICE_H

#include "engine/device/device.h"
#include "kernels/fit/fit_rows.h"

enum { MR_FIT_DEVICES = 16 };

typedef struct mr_fit_devices mr_fit_devices;
typedef struct mr_fit_lane mr_fit_lane;

/* For `outputs` classes. `rows` is the caller's, and stays as it is. `doubles`: all numbers are doubles, else
 * floats. */
int mr_fit_devices_create(mr_fit_devices **devices, const mr_fit_rows *rows, size_t outputs, bool doubles,
                          mr_device *const *list, size_t count);
/* For matrices that are brought along, of at most so many numbers: factors and product. */
int mr_fit_devices_create_for(mr_fit_devices **devices, size_t factor, size_t product, bool doubles,
                              mr_device *const *list, size_t count);
/* Accepts NULL; sets it to NULL. */
void mr_fit_devices_destroy(mr_fit_devices **devices);
/* Brings W, outputs x width, to all devices. No lane is in use. A failure is kept. */
void mr_fit_devices_set(mr_fit_devices *devices, const void *weights);

/* logits = features times W, transposed: MR_FIT_CHUNK x outputs, in memory of the lane, without the biases. NULL if it
 * failed; *lane is then NULL as well. */
void *mr_fit_devices_multiply(mr_fit_devices *devices, size_t chunk, mr_fit_lane **lane);
/* The gradient of W = residuals, transposed, times features: outputs x width. The residuals stand where the logits
 * were. NULL if it failed. */
const void *mr_fit_devices_multiply_back(mr_fit_lane *lane);
/* Gives the lane back, with its logits and its gradient. Accepts NULL. */
void mr_fit_devices_leave(mr_fit_lane *lane);

/* a times b, rows x columns, with `inner` products for each number. `turned`: that one is given transposed. */
typedef struct mr_fit_product {
    const void *a, *b;
    size_t rows, columns, inner;
    bool turned_a, turned_b;
} mr_fit_product;
/* Puts the product in `to`; zeros if it failed. The chunk chooses the device. */
void mr_fit_devices_product(mr_fit_devices *devices, size_t chunk, const mr_fit_product *product, void *to);

/* 0, or the first failure. */
int mr_fit_devices_status(mr_fit_devices *devices);

#endif
