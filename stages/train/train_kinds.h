/* The classifier kinds. Each fit fills training->made. Errors: as mr_classifier_fit. */
#pragma once

#include "stages/train/training.h"

int mr_train_linear(mr_fitting *training);
int mr_train_prototypes(mr_fitting *training);
int mr_train_neighbors(mr_fitting *training);
int mr_train_perceptron(mr_fitting *training);
