/* Inputs and outputs of a model of ONNX Runtime: model->base.inputs and .outputs, with the types that frames hold. An
 * output of another type of numbers is cast by a node behind the network, on whatever device it runs. One thread. */
#pragma once

#include "stages/model/ort_model.h"

/* Fills them in from the session; errors of mr_ort_check, and MR_ERROR_DATA of a model that has too many. */
int mr_ort_read_signature(ort_model *model);
/* The same from the bytes of the file, without a session. False, and nothing done, if they do not have all that
 * planning needs: the output `tensor` (NULL: any) is not declared, or a size is open. */
bool mr_ort_take_declared(ort_model *model, const char *tensor);
/* Adds what the bytes of the file tell alone, once inputs and outputs are known: the operators that compute outputs,
 * and inputs without a declared shape. */
int mr_ort_read_graph(ort_model *model);
void mr_ort_forget_tensors(ort_model *model);

int mr_ort_read_shape(const ort_model *model, const ort_tensor_info *info, mr_shape *shape);

/* Bytes behind the file for casts. */
enum { MR_ORT_CAST_ROOM = 1 << 16 };
/* Adds casts of the outputs that the file declares (`tensor`: of that one only) to the bytes, before a session. */
int mr_ort_append_casts(ort_model *model, const char *tensor);
/* The same of a tensor that the session has told the type of; *added: one was needed, and a new session is. */
int mr_ort_append_cast(ort_model *model, const char *tensor, bool *added);
/* The name of that output for the runtime: of its cast, if there is one. */
const char *mr_ort_output_name(const ort_model *model, size_t at);
