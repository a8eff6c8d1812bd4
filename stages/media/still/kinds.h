/* Recognises the kinds of files that a source can meet, by name and first bytes. Pure functions. */
#pragma once

#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The codec for a file extension; AV_CODEC_ID_NONE if it is not a picture's. HEIC is HEVC, AVIF is AV1. */
enum AVCodecID mr_image_codec_by_name(const char *path);
bool mr_is_video_by_name(const char *path);

/* The picture codec that the first bytes show; AV_CODEC_ID_NONE if unknown, and for HEIF (heif.h). */
enum AVCodecID mr_image_codec_by_content(const uint8_t *data, size_t bytes);

/* The codec for a libavformat still image format ("png_pipe"). AV_CODEC_ID_NONE if it is no still image, or if its
 * files can refer to others (SVG). */
enum AVCodecID mr_input_image_codec(const AVInputFormat *format);

/* Why an undamaged file cannot be read as a picture, for example because it is a video. Writes the rest of a sentence
 * that begins with its name: "is an animated WebP, ...". `path` may be NULL. False: it may be damaged. */
bool mr_still_trouble(const char *path, const uint8_t *data, size_t bytes, char *text, size_t room);
