#include "engine/data/kinds.h"

static const mr_result_kind kind = {
    .name = "tensor",
    .help = "an array of numbers with a name",
    .on_device = true,
};

const mr_result_kind *mr_kind_tensor(void) {
    return &kind;
}
