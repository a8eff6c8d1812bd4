/* Pictures that say that a source is away: no line of them is missing, however large the picture is. */
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/media/placeholder.h"
#include "tests/support/suite.h"

static const char *const text = "Camera 7: the north-western entrance hall\nretrying\nsince 2026-11-28 14:27:42Z";

/* The number of separate bands of rows with bright samples. */
static int count_lines(const uint8_t *luma, mr_size size) {
    int count = 0;
    bool before = false;
    for (int y = 0; y < size.height; y++) {
        int bright = 0;
        for (int x = 0; x < size.width; x++)
            bright += luma[(ptrdiff_t)y * size.width + x] > 100;
        count += bright && !before;
        before = bright;
    }
    return count;
}

TEST(all_lines_are_drawn) {
    static const mr_size sizes[] = {{320, 180}, {640, 360}, {1920, 1080}, {5120, 2880}, {8192, 8192}, {16384, 8640}};
    const mr_reader_params params = {.uri = "cam"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ENDED_BY(mr_placeholder_fini) mr_placeholder shown = {0};
        assert_int_equal(mr_placeholder_show(&shown, text, sizes[i], &params), MR_OK);
        print_message("    %dx%d\n", sizes[i].width, sizes[i].height);
        assert_int_equal(count_lines(shown.picture.data, sizes[i]), 3);
    }
}

/* Lines that lie outside of the picture are no error. */
TEST(the_smallest_pictures_are_drawn) {
    const mr_reader_params params = {.uri = "cam"};
    ENDED_BY(mr_placeholder_fini) mr_placeholder shown = {0};
    assert_int_equal(mr_placeholder_show(&shown, text, (mr_size){2, 2}, &params), MR_OK);
}

RUN_TESTS(NULL, NULL)
