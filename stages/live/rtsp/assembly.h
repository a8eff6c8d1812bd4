/* A unit under construction, which the codecs' depacketizers write. One thread at a time. */
#pragma once

#include "stages/live/rtsp/depacketize.h"

/* Parameter set kinds; H.264 has no VPS. */
enum { MR_SET_VPS, MR_SET_SPS, MR_SET_PPS, MR_SET_KINDS };
enum { MR_ASSEMBLY_SETS = 32 };

typedef struct mr_assembly {
    uint8_t *data;
    size_t bytes, room, most;
    int64_t time;
    uint32_t timestamp;
    bool begun;        /* it has a packet */
    bool picture;      /* it has picture data, not only parameter sets and messages */
    bool complete, given;
    bool key, reference, gap, damaged;
    bool point;        /* it has a recovery point */
    bool too_large;    /* larger than `most`: it will not be given */
    int width, height;
    size_t nal;        /* where the current NAL unit begins, including the start code */
    bool nal_open;
    size_t lead;       /* size in bytes that a leading access unit delimiter has */
    struct {
        int kind;
        size_t begin, bytes; /* with the start code */
    } sets[MR_ASSEMBLY_SETS];
    int set_count;
} mr_assembly;

/* Adds bytes; above `most`, or without memory, the unit is too large. */
void mr_assembly_add(mr_assembly *assembly, const uint8_t *data, size_t bytes);

/* How a codec's payloads are read. */
typedef struct mr_payload_type {
    /* Which kind of parameter set a NAL unit is; -1: none. NULL: the codec has none. */
    int (*kind)(const uint8_t *nal);
    /* Whether a unit begins with this payload. */
    bool (*begins)(const uint8_t *payload, size_t bytes);
    /* Adds a payload to the depacketizer's unit. */
    void (*add)(mr_depacketizer *depacketizer, mr_assembly *to, const mr_rtp_packet *packet);
    /* Called when the unit has all its packets. */
    void (*finish)(mr_depacketizer *depacketizer, mr_assembly *unit);
} mr_payload_type;

extern const mr_payload_type mr_payload_h264, mr_payload_hevc, mr_payload_jpeg;

typedef struct mr_set_store {
    uint8_t *data;     /* Annex B */
    size_t bytes, room;
} mr_set_store;

struct mr_depacketizer {
    const mr_payload_type *type;
    mr_assembly units[2]; /* the open one, and the previous one */
    int open;             /* which one packets are added to */
    bool begun;           /* a packet has arrived */
    bool tainted;         /* something was missing since the last complete key */
    bool gap;             /* the next unit has one */
    bool marker_lies;     /* markers come within pictures */
    bool held;            /* the open unit has the stream's first marker */
    int64_t marked_time;  /* time for the last unit that a marker completed */
    bool has_marked;
    mr_set_store sets[MR_SET_KINDS];
    unsigned kinds_in_band; /* bit per kind: the last key brought that set */
    uint64_t version, told_version;
    mr_set_store told;    /* all sets, for mr_depacketizer_sets */
    int width, height;    /* for pictures whose header cannot hold the size */
    uint64_t refused;
    char refusal[64];
    struct mr_jpeg_tables *tables; /* JPEG: tables from earlier pictures; NULL: none */
};

/* Call for an unknown payload: marks the unit as damaged. */
void mr_depacketizer_refuse(mr_depacketizer *depacketizer, mr_assembly *unit, const char *format, int type);
