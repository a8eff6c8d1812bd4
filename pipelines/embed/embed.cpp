// A C++ program that embeds millrace and adds a stage type. It pushes gray pictures. The stage reads their pixels and
// adds the mean brightness. A callback receives each result.
//
//     c++ -std=c++17 embed.cpp $(pkg-config --cflags --libs millrace) -o embed && ./embed brightness.yaml
#include <millrace/millrace.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

// ---- a stage type: the mean of a gray picture, as a result named "brightness" ---------------------------------------

struct options {
    std::int64_t step; // reads every step-th row and column
};

mr_format number() {
    const std::int64_t one = 1;
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &one);
}

int negotiate(mr_negotiation *negotiation) {
    const mr_format tensor = number();
    const mr_format_set set = mr_format_set_of(&tensor);
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    return mr_promise_result(negotiation, 0, mr_kind_tensor(), "brightness", &set);
}

float brightness(const mr_frame &frame, std::int64_t step) {
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t y = 0; y < frame.format.height; y += step)
        for (std::int64_t x = 0; x < frame.format.width; x += step, count++)
            sum += frame.plane[0].data[y * frame.plane[0].stride + x];
    return static_cast<float>(sum / static_cast<double>(count));
}

int process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    const mr_format tensor = number();
    mr_frame *frame = nullptr;
    void *result = nullptr;
    int status = mr_io_share(io, input, &frame);
    if (!status)
        status = mr_io_add_tensor(io, frame, "brightness", &tensor, &result);
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    *static_cast<float *>(result) = brightness(*input, static_cast<const options *>(self->options)->step);
    return mr_io_emit(io, 0, frame);
}

// C++17 lacks designated initialisers: starts from a zeroed struct and sets the fields.
mr_format_set gray_pictures() {
    mr_format_set set = {};
    set.payload = MR_PAYLOAD_PICTURE;
    set.pixels = MR_IN_SET(MR_PIXEL_GRAY8);
    return set;
}

mr_option step_option() {
    mr_option option = {};
    option.name = "step";
    option.kind = MR_OPTION_INT;
    option.offset = offsetof(options, step);
    option.fallback = "1";
    option.min = 1;
    option.max = 64;
    option.unit = "px";
    option.help = "one of so many rows and columns is read";
    return option;
}

mr_port port(const char *name, const mr_format_set *accepts) {
    mr_port made = {};
    made.name = name;
    made.accepts = accepts;
    return made;
}

const mr_stage_type *brightness_type() {
    static const mr_format_set accepts[] = {gray_pictures(), {}};
    static const mr_port inputs[] = {port("in", accepts), {}}, outputs[] = {port("out", accepts), {}};
    static const mr_option table[] = {step_option(), MR_OPTIONS_END};
    static mr_stage_type type = {};
    type.name = "brightness";
    type.summary = "adds to each gray picture how bright it is, from 0 to 255";
    type.inputs = inputs;
    type.outputs = outputs;
    type.options = table;
    type.options_bytes = sizeof(options);
    type.entry = MR_ENTRY_STATELESS;
    type.negotiate = negotiate;
    type.process = process;
    return &type;
}

// ---- the program ----------------------------------------------------------------------------------------------------

constexpr int width = 65, height = 33, pictures = 10;

struct destroy {
    void operator()(mr_pipeline *pipeline) const { mr_pipeline_destroy(&pipeline); }
};
using owned_pipeline = std::unique_ptr<mr_pipeline, destroy>;

struct answers {
    int count = 0, wrong = 0;
};

// In picture number n, pixels on even rows and columns are n * 20; step 2 reads only those. All other pixels differ.
void on_answer(void *context, const char *source, const mr_frame *frame) {
    auto *got = static_cast<answers *>(context);
    const mr_result *result = mr_frame_result(frame, mr_kind_tensor(), "brightness");
    const double expected = static_cast<double>(frame->identity.seq) * 20;
    const float value = result ? *static_cast<const float *>(static_cast<const void *>(result->data)) : NAN;
    std::printf("%s %llu: %.1f\n", source, static_cast<unsigned long long>(frame->identity.seq),
                static_cast<double>(value));
    got->wrong += !(std::fabs(static_cast<double>(value) - expected) < 1e-3);
    got->count++;
}

int push_pictures(mr_pipeline *pipeline) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width) * height);
    mr_push push = {};
    push.format.payload = MR_PAYLOAD_PICTURE;
    push.format.pixel = MR_PIXEL_GRAY8;
    push.format.width = width;
    push.format.height = height;
    push.data[0] = pixels.data();
    push.stride[0] = width;
    for (int n = 0; n < pictures; n++) {
        for (int i = 0; i < width * height; i++)
            pixels[static_cast<std::size_t>(i)] =
                static_cast<std::uint8_t>(i % width % 2 || i / width % 2 ? 255 - n : n * 20);
        push.pts_ns = n * INT64_C(40000000);
        const int status = mr_pipeline_push(pipeline, "camera", &push, -1);
        if (status)
            return status;
    }
    return mr_pipeline_end(pipeline, "camera");
}

int run(mr_pipeline *pipeline) {
    answers got;
    int status = mr_pipeline_subscribe(pipeline, "answers", on_answer, &got);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = push_pictures(pipeline);
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    if (status)
        std::fprintf(stderr, "embed: %s\n", mr_message());
    else
        std::printf("%d answers, %d wrong\n", got.count, got.wrong);
    return status || got.wrong || got.count != pictures;
}

} // namespace

int main(int argc, char **argv) {
    // millrace's stage types, and one more.
    std::vector<const mr_stage_type *> types;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        types.push_back(*type);
    types.push_back(brightness_type());
    types.push_back(nullptr);

    mr_pipeline_params params = {};
    params.types = types.data();
    params.path = argc > 1 ? argv[1] : "brightness.yaml";
    mr_diagnostics wrong = {};
    mr_pipeline *opened = nullptr;
    const int failed = mr_pipeline_open(&opened, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    const owned_pipeline pipeline(opened);
    return failed ? mr_status_exit_code(failed) : run(pipeline.get());
}
