/* An ONNX Runtime model's inputs and outputs: model->base.inputs and .outputs, with frame types. An output with another
 * numeric type is cast by a node appended to the network, on whatever device it runs. One thread. */
#pragma once

#include "stages/model/ort_model.h"

/* Reads them from the session. mr_ort_check's errors, and MR_ERROR_DATA if there are too many. */
int mr_ort_read_signature(ort_model *model);
/* The same from the file's bytes, without a session. False, with nothing done, if something that planning needs is
 * missing: the output `tensor` (NULL: any) is not declared, or a size is open. */
bool mr_ort_take_declared(ort_model *model, const char *tensor);
/* Adds what only the file's bytes show: the operators that compute outputs, and inputs without a declared shape. Inputs
 * and outputs must be known. */
int mr_ort_read_graph(ort_model *model);
void mr_ort_forget_tensors(ort_model *model);

int mr_ort_read_shape(const ort_model *model, const ort_tensor_info *info, mr_shape *shape);

/* Room for casts after the file. */
enum { MR_ORT_CAST_ROOM = 1 << 16 };
/* Before a session exists: appends casts for the outputs that the file declares (`tensor`: only for that one). */
int mr_ort_append_casts(ort_model *model, const char *tensor);
/* The same for a tensor whose type the session reported; *added: a cast was added, and a new session is needed. */
int mr_ort_append_cast(ort_model *model, const char *tensor, bool *added);
/* The runtime's name for that output: its cast's, if there is one. */
const char *mr_ort_output_name(const ort_model *model, size_t at);
