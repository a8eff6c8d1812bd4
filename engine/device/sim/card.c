#include "engine/device/sim/card.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/device/sim/card_file.h"
#include "millrace/status.h"

/* ---- figures from public sheets ---------------------------------------------------------------------------------- */

/* How many 1920x1080 4:2:0 frames a second one NVDEC decodes at the given video clock: Video Codec SDK 13.0, "NVDEC
 * Application Note", table "NVDEC Decoding Performance". According to it GA100 and Hopper have Turing's NVDEC, and the
 * rate scales with the video clock. */
typedef struct decoder {
    double mhz;
    double fps[MR_CARD_CODECS]; /* h264, hevc, hevc 10 bits, vp9, vp9 10 bits, av1 */
} decoder;

static const decoder turing = {1860, {771, 1316, 1158, 932, 925, 0}};
static const decoder ampere = {1665, {748, 1415, 1299, 1075, 1120, 790}};
static const decoder ada = {2160, {903, 1641, 1520, 1290, 1342, 1018}};
static const decoder blackwell = {2362, {2172, 1872, 1818, 1445, 1498, 1119}};

/* Bytes per second and direction on 16 lanes, after the 128b/130b code (PCI Express base specification). */
#define GEN3 (8e9 * 16 * 128 / 130 / 8)
#define GEN4 (16e9 * 16 * 128 / 130 / 8)
#define GEN5 (32e9 * 16 * 128 / 130 / 8)

typedef struct sheet {
    const char *name, *title, *source;
    int capability; /* 90: 9.0, "CUDA GPU Compute Capability" on NVIDIA's developer pages */
    int gibibytes;
    double gigabytes_s; /* device memory's */
    double f32, f16;    /* 10^12 operations a second, dense; f16: tensor cores that add in f32 */
    double link;
    int decoders;
    const decoder *decoder;
    double video_mhz; /* highest, as nvidia-smi -q of such a card says; 0: not looked up, the decoder's own is taken */
} sheet;

/* Figures from the vendor's data sheets (GeForce: from the architecture's white paper). Those given "with sparsity" are
 * halved. If a GeForce has both rates, this is FP16 with FP32 sums. In November 2026 memory, bandwidth and both rates
 * were compared with pages that quote the sheets, not with the sheets themselves. So were the decoder counts for A40,
 * L40, L40S, RTX 4090 and RTX 5090. Not compared at all: the A30, the A10's tensor rate and the source for the RTX
 * 3090's bandwidth. Derived: tensor rates for RTX A6000, RTX 6000 Ada and RTX 5090. Compute capabilities were written
 * from memory, after NVIDIA's list. */
static const sheet sheets[] = {
    {"a10", "NVIDIA A10", "NVIDIA A10 data sheet", 86, 24, 600, 31.2, 125, GEN4, 2, &ampere, 0},
    {"a100", "NVIDIA A100 SXM4 80GB", "NVIDIA A100 data sheet", 80, 80, 2039, 19.5, 312, GEN4, 5, &turing, 1290},
    {"a100-40gb", "NVIDIA A100 40GB", "NVIDIA A100 data sheet", 80, 40, 1555, 19.5, 312, GEN4, 5, &turing, 1290},
    {"a100-pcie", "NVIDIA A100 PCIe 80GB", "NVIDIA A100 data sheet", 80, 80, 1935, 19.5, 312, GEN4, 5, &turing,
     1290},
    {"a30", "NVIDIA A30", "NVIDIA A30 data sheet, not compared", 80, 24, 933, 10.3, 165, GEN4, 4, &turing, 0},
    {"a40", "NVIDIA A40", "NVIDIA A40 data sheet", 86, 48, 696, 37.4, 149.7, GEN4, 2, &ampere, 0},
    {"h100", "NVIDIA H100 SXM5 80GB", "NVIDIA H100 data sheet", 90, 80, 3350, 67, 989.5, GEN5, 7, &turing, 1545},
    {"h100-pcie", "NVIDIA H100 PCIe 80GB", "NVIDIA H100 data sheet", 90, 80, 2000, 51, 756.5, GEN5, 7, &turing,
     1545},
    {"h200", "NVIDIA H200 SXM 141GB", "NVIDIA H200 data sheet", 90, 141, 4800, 67, 989.5, GEN5, 7, &turing, 1545},
    {"l4", "NVIDIA L4", "NVIDIA L4 data sheet", 89, 24, 300, 30.3, 121, GEN4, 4, &ada, 0},
    {"l40", "NVIDIA L40", "NVIDIA L40 data sheet", 89, 48, 864, 90.5, 181, GEN4, 3, &ada, 0},
    {"l40s", "NVIDIA L40S", "NVIDIA L40S data sheet", 89, 48, 864, 91.6, 362, GEN4, 3, &ada, 0},
    {"rtx3090", "GeForce RTX 3090", "NVIDIA Ampere GA102 white paper", 86, 24, 936, 35.6, 71, GEN4, 1, &ampere, 0},
    {"rtx4080", "GeForce RTX 4080", "NVIDIA Ada white paper", 89, 16, 716.8, 48.7, 97.5, GEN4, 1, &ada, 0},
    {"rtx4090", "GeForce RTX 4090", "NVIDIA Ada white paper", 89, 24, 1008, 82.6, 165.2, GEN4, 1, &ada, 0},
    {"rtx5090", "GeForce RTX 5090", "NVIDIA RTX Blackwell white paper", 120, 32, 1792, 104.8, 209.5, GEN5, 2,
     &blackwell, 0},
    {"rtx6000ada", "NVIDIA RTX 6000 Ada", "NVIDIA RTX 6000 Ada data sheet", 89, 48, 960, 91.1, 364, GEN4, 3, &ada,
     0},
    {"rtxa6000", "NVIDIA RTX A6000", "NVIDIA RTX A6000 data sheet", 86, 48, 768, 38.7, 154.8, GEN4, 2, &ampere, 0},
    {"t4", "NVIDIA T4", "NVIDIA T4 data sheet", 75, 16, 320, 8.1, 65, GEN3, 2, &turing, 1470},
};

enum {
    SHEETS = sizeof sheets / sizeof sheets[0],
    /* Kernels that depend on each other come every 2 to 4 us in NVIDIA's "Getting Started with CUDA Graphs"; no sheet
     * has it. */
    LAUNCH_NS = 3000,
    /* Copies in the two directions run side by side on all these (asyncEngineCount is 2 or more). */
    COPY_ENGINES = 2,
    /* CUDA programming guide, "Maximum number of resident grids per device" for compute capability 7.5 to 12.0. */
    KERNELS = 128
};

static const char *const codecs[MR_CARD_CODECS] = {"h264", "hevc", "hevc10", "vp9", "vp9_10", "av1"};

static mr_card card_of(const sheet *from) {
    mr_card card = {
        .memory_bytes = (int64_t)from->gibibytes << 30,
        .memory_rate = from->gigabytes_s * 1e9 * MR_CARD_MEMORY_SHARE,
        .upload_rate = from->link * MR_CARD_LINK_SHARE,
        .download_rate = from->link * MR_CARD_LINK_SHARE,
        .f32_rate = from->f32 * 1e12 * MR_CARD_F32_SHARE,
        .f16_rate = from->f16 * 1e12 * MR_CARD_F16_SHARE,
        .launch_ns = LAUNCH_NS,
        .capability = from->capability,
        .copy_engines = COPY_ENGINES,
        .kernels = KERNELS,
        .decoders = from->decoders,
    };
    double clock = from->video_mhz > 0 ? from->video_mhz / from->decoder->mhz : 1;
    for (int i = 0; i < MR_CARD_CODECS; i++)
        card.decode_fps[i] = from->decoder->fps[i] * clock;
    snprintf(card.name, sizeof card.name, "%s", from->name);
    snprintf(card.title, sizeof card.title, "%s", from->title);
    snprintf(card.source, sizeof card.source, "%s", from->source);
    return card;
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

const char *mr_card_name(size_t i) {
    return i < SHEETS ? sheets[i].name : NULL;
}

const char *mr_card_codec_name(mr_card_codec codec) {
    return codecs[codec];
}

const char *mr_card_list(char *text, size_t bytes) {
    text[0] = 0;
    for (size_t i = 0; i < SHEETS; i++)
        snprintf(text + strlen(text), bytes - strlen(text), "%s%s", i ? ", " : "", sheets[i].name);
    return text;
}

/* The next character that counts; 0 after the last. */
static int next_letter(const char **text) {
    while (**text == ' ' || **text == '-' || **text == '_')
        ++*text;
    return **text ? tolower((unsigned char)*(*text)++) : 0;
}

static bool same_name(const char *a, const char *b) {
    int letter;
    do {
        letter = next_letter(&a);
        if (letter != next_letter(&b))
            return false;
    } while (letter);
    return true;
}

bool mr_card_find(const char *name, mr_card *card) {
    for (size_t i = 0; i < SHEETS; i++)
        if (same_name(sheets[i].name, name)) {
            *card = card_of(&sheets[i]);
            return true;
        }
    return false;
}

int mr_card_open(const char *name, mr_card *card) {
    char names[256];
    if (mr_card_find(name, card))
        return MR_OK;
    if (strpbrk(name, "./"))
        return mr_card_read(name, card);
    return mr_fail(MR_ERROR_CONFIG,
                   "there is no model of a card \"%s\"; there are %s, and files of figures (FILE.json)",
                   name, mr_card_list(names, sizeof names));
}
