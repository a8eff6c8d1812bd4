/* Graphics card models: the figures from which simulated devices take times (`sim:0?like=h100`) and a plan takes frame
 * rates (`plan --assume cuda:1xH100`).
 *
 * A built-in card has the figures from the vendor's data sheet (card.c lists which were compared, and with what), times
 * the share that programs usually reach (the constants below, which are judgements). A card file (`like=mine.json`) can
 * replace any of them by measured ones, which are taken as they are. It is one JSON object:
 *
 *     {"like": "h100",                a built-in card that gives the rest; without it, what is left out is not known
 *      "name": "H100 in node7",       for people
 *      "memory_bytes": 85899345920,   device memory
 *      "memory_bytes_s": 3.0e12,      reading and writing it, bytes a second
 *      "upload_bytes_s": 5.3e10, "download_bytes_s": 5.3e10,
 *      "f32_s": 4.1e13, "f16_s": 3.5e14,  operations of networks a second; a multiplication and an addition are two
 *      "launch_ns": 2500,             from one kernel's begin to the next one's in a stream, if neither has work
 *      "copy_engines": 2, "kernels": 128,
 *      "decoders": 7, "decode_fps": {"h264": 640, "hevc": 1090}}  frames of 1080p a second of one decoder
 *
 * 0 stands for what is not known. Pure functions but for reading that file; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which share of the sheet's figures programs reach. Long copies within memory reach about nine tenths of the
 * bandwidth, copies from pinned memory eight tenths of what the link carries. Networks reach half the f32 rate and
 * three tenths of the tensor cores' f16 rate. */
#define MR_CARD_MEMORY_SHARE 0.9
#define MR_CARD_LINK_SHARE 0.8
#define MR_CARD_F32_SHARE 0.5
#define MR_CARD_F16_SHARE 0.3

typedef enum mr_card_codec {
    MR_CARD_H264,
    MR_CARD_HEVC,
    MR_CARD_HEVC10,
    MR_CARD_VP9,
    MR_CARD_VP9_10,
    MR_CARD_AV1,
    MR_CARD_CODECS
} mr_card_codec;

/* The picture size in pixels that decode_fps counts: 1920x1080. */
enum { MR_CARD_DECODED_PIXELS = 1920 * 1080, MR_CARD_TEXT = 96, MR_CARD_NAME = 160 };

typedef struct mr_card {
    char name[MR_CARD_NAME];   /* as `like` has it: "h100", "mine.json" */
    char title[MR_CARD_TEXT];  /* "NVIDIA H100 SXM5 80GB" */
    char source[MR_CARD_TEXT]; /* where the figures are from */
    bool measured;             /* some are from a file */
    int64_t memory_bytes;
    double memory_rate, upload_rate, download_rate; /* bytes a second */
    double f32_rate, f16_rate;                      /* operations a second */
    double launch_ns;
    int capability;   /* 90: compute capability 9.0 */
    int copy_engines; /* 1: uploads and downloads take turns */
    int kernels;      /* how many can run side by side */
    int decoders;     /* NVDEC */
    double decode_fps[MR_CARD_CODECS];
} mr_card;

/* The names of built-in cards, NULL after the last; and of codecs ("h264"). */
const char *mr_card_name(size_t i);
const char *mr_card_codec_name(mr_card_codec codec);
/* "a10, a100, ...", cut if there is no room; returns `text`. */
const char *mr_card_list(char *text, size_t bytes);
/* A built-in card; case, spaces, - and _ mean nothing ("RTX-4090"). False if there is none of that name. */
bool mr_card_find(const char *name, mr_card *card);
/* A built-in card, or the figures in a file, whose name has a dot or a slash. MR_ERROR_CONFIG, with all card names;
 * MR_ERROR_NO_INPUT, MR_ERROR_DATA and others for a file. */
int mr_card_open(const char *name, mr_card *card);
