/* mr_fill_padding (kernels/preprocess/preprocess_device.h) with threads run one after another: every pixel outside
 * the picture is written once, and no other pixel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "kernels/preprocess/preprocess_device.h"

static uint64_t random_state = 20261122;

static int between(int low, int high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (int)((random_state >> 33) % (uint64_t)(high - low + 1));
}

static bool is_inside(const mr_preprocess *plan, int x, int y) {
    return x >= plan->inner_x && x < plan->inner_x + plan->inner_width && y >= plan->inner_y &&
           y < plan->inner_y + plan->inner_height;
}

static void check(const mr_preprocess *plan, int blocks) {
    const int width = plan->params.width, height = plan->params.height;
    std::vector<int> puts((size_t)width * (size_t)height);
    for (int block = 0; block < blocks; block++)
        for (unsigned thread = 0; thread < MR_GRID_THREADS; thread++) {
            threadIdx.x = thread;
            mr_fill_padding(plan, block, blocks, [&](int x, int y) {
                if (x < 0 || x >= width || y < 0 || y >= height)
                    fail_msg("%d,%d is not in %dx%d", x, y, width, height);
                puts[(size_t)y * (size_t)width + (size_t)x]++;
            });
        }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int wanted = is_inside(plan, x, y) ? 0 : 1, got = puts[(size_t)y * (size_t)width + (size_t)x];
            if (got != wanted)
                fail_msg("%d,%d of %dx%d, picture %dx%d at %d,%d, %d blocks: put %d times", x, y, width, height,
                         plan->inner_width, plan->inner_height, plan->inner_x, plan->inner_y, blocks, got);
        }
    threadIdx.x = 0;
}

static void every_pixel_of_the_padding_once(void **) {
    for (int i = 0; i < 400; i++) {
        static mr_preprocess plan;
        plan.params.width = between(1, i % 8 ? 70 : 300);
        plan.params.height = between(1, i % 8 ? 70 : 300);
        /* Three in four are as wide or as high as the destination, or both. */
        plan.inner_width = i % 2 ? plan.params.width : between(1, plan.params.width);
        plan.inner_height = i % 4 > 1 ? plan.params.height : between(1, plan.params.height);
        plan.inner_x = between(0, plan.params.width - plan.inner_width);
        plan.inner_y = between(0, plan.params.height - plan.inner_height);
        check(&plan, between(1, 9));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pixel_of_the_padding_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
