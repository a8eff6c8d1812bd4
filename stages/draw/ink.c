#include "stages/draw/ink.h"

#include <math.h>

/* Steps by the golden ratio spread hues evenly, however many there are (Weyl's sequence). Each third number has another
 * saturation and value. */
mr_ink mr_ink_of(uint64_t number, uint8_t opacity) {
    static const double shades[3][2] = {{0.85, 1.0}, {0.55, 1.0}, {0.95, 0.7}};
    const double turn = 0.6180339887498949 * (double)(number % 100000) + 0.02, hue = 6 * (turn - floor(turn));
    const double saturation = shades[number % 3][0], value = shades[number % 3][1];
    mr_ink ink = {.opacity = opacity};
    for (int i = 0; i < 3; i++) { /* the formula without cases: red is at 5, green at 3, blue at 1 */
        const double k = fmod(5 - 2 * i + hue, 6), fall = fmax(0, fmin(fmin(k, 4 - k), 1));
        ink.rgb[i] = (uint8_t)(255 * value * (1 - saturation * fall) + 0.5);
    }
    return ink;
}

mr_ink mr_ink_on(mr_ink ink) {
    const int luma = (299 * ink.rgb[0] + 587 * ink.rgb[1] + 114 * ink.rgb[2]) / 1000;
    const uint8_t level = luma > 128 ? 0 : 255;
    return (mr_ink){{level, level, level}, 255};
}

uint64_t mr_ink_number(const char *text) {
    uint64_t value = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++)
        value = (value ^ (uint8_t)*text) * 0x100000001b3u;
    return value;
}
