/* The kinds of files that a source meets, by their names and by their first bytes. Pure functions. */
#pragma once

#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The codec of a name's ending; AV_CODEC_ID_NONE if it is not a picture's. Of HEIC it is HEVC, of AVIF it is AV1. */
enum AVCodecID mr_image_codec_by_name(const char *path);
bool mr_is_video_by_name(const char *path);

/* The codec of a picture by its first bytes; AV_CODEC_ID_NONE if it is unknown, and for HEIF (heif.h). */
enum AVCodecID mr_image_codec_by_content(const uint8_t *data, size_t bytes);

/* The codec of a still image format of libavformat ("png_pipe"); AV_CODEC_ID_NONE if the format is not a still image,
 * or its files can point at others (SVG). */
enum AVCodecID mr_input_image_codec(const AVInputFormat *format);

/* Why a file that is no damaged picture is not read as one: it is a video, say. Writes the rest of a sentence that
 * begins with its name: "is an animated WebP, ...". `path` may be NULL. False: it may well be damaged. */
bool mr_still_trouble(const char *path, const uint8_t *data, size_t bytes, char *text, size_t room);
