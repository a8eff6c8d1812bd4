/* Detection heads: what the outputs of a network say about objects.
 *
 * A head describes where boxes, scores and classes stand in the outputs, and how to compute them. Known families have a
 * name: mr_box_head_find recognises one by the shapes of the outputs, and mr_box_head_make checks one that the user
 * names. Tables of columns describe all families but CenterFace and DB.
 *
 * Outputs are f32 in host memory, one item (no batch), dense; class numbers may also be i64 or i32.
 *
 * Ownership: a head owns nothing. Errors: MR_ERROR_CONFIG, with the expected shapes. Any thread. */
#pragma once

#include "kernels/detect/boxes.h"
#include "millrace/format.h"

typedef enum mr_box_head_family {
    MR_BOX_HEAD_YOLOX,      /* one output, rows of cx, cy, log w, log h, objectness, classes, relative to grids (Ge et
                           al., "YOLOX", 2021) */
    MR_BOX_HEAD_YOLOV5,     /* one output, rows of cx, cy, w, h, objectness, classes */
    MR_BOX_HEAD_YOLOV8,     /* one output, columns of cx, cy, w, h, classes */
    MR_BOX_HEAD_YOLOV8_POSE, /* the same, then x, y and score of each key point */
    MR_BOX_HEAD_YOLOV8_SEG, /* the same, then coefficients of masks; and the masks' prototypes (Bolya et al., "YOLACT",
                           2019) */
    MR_BOX_HEAD_YOLOV8_OBB, /* as YOLOV8, then an angle: boxes are turned */
    MR_BOX_HEAD_SSD,        /* boxes (left, top, right, bottom in 0..1) and scores whose class 0 is the background */
    MR_BOX_HEAD_RTDETR,     /* logits and boxes (cx, cy, w, h in 0..1); or one output, rows of a box and scores, as
                           Ultralytics exports it. A box may appear for several classes */
    MR_BOX_HEAD_END2END,    /* rows of left, top, right, bottom, score, class: already suppressed. Then may come an
                           angle (boxes are cx, cy, w, h), key points, or coefficients of masks */
    MR_BOX_HEAD_YOLOV7_END2END, /* rows of a number in the batch, left, top, right, bottom, class, score: already
                           suppressed. A batch must have one picture */
    MR_BOX_HEAD_CENTERFACE, /* heat map, scale, offset of the centre, and five landmarks for cells of 4 x 4 pixels (Xu
                           et al., "CenterFace: Joint Face Detection and Alignment Using Face as Point", 2019). As in
                           the authors' program, left and top are clipped to the input before the size is added, and
                           landmarks are relative to that corner */
    MR_BOX_HEAD_DB,         /* a map of where text is: boxes have corners (box_db.h) */
    MR_BOX_HEAD_CUSTOM,     /* described by mr_box_head_custom */
    MR_BOX_HEAD_FAMILIES
} mr_box_head_family;

typedef enum mr_box_order { MR_BOX_LTRB, MR_BOX_TLBR, MR_BOX_LTWH, MR_BOX_CXCYWH } mr_box_order;

/* A network output: an item's format and name. */
typedef struct mr_box_head_output {
    const char *name;
    mr_format format;
} mr_box_head_output;

/* For MR_BOX_HEAD_CUSTOM. Each name is an output's. */
typedef struct mr_box_head_custom {
    const char *boxes;   /* N x 4 or 4 x N; without `scores` N x 5 or 5 x N */
    const char *scores;  /* N, N x C or C x N; NULL: the fifth number of a box */
    const char *classes; /* N class numbers; NULL: the column in `scores` is the class; without `scores` all are 0 */
    mr_box_order order;
    bool normalized;     /* boxes are in 0..1 of the input's size; else in pixels */
    bool background;     /* class 0 of `scores` is none */
    bool logits;         /* scores become sigmoids */
    bool suppress;       /* boxes overlap and must be suppressed */
} mr_box_head_custom;

enum { MR_BOX_CORNER_NUMBERS = 8, MR_CENTERFACE_CELL = 4, MR_CENTERFACE_POINTS = 5 };
enum { MR_BOX_HEAD_MOST_OUTPUTS = 8, MR_BOX_HEAD_MOST_POINTS = 256, MR_BOX_HEAD_MOST_CLASSES = 1 << 20 };
/* Cells of a mask, in each direction. */
enum { MR_BOX_HEAD_MOST_CELLS = 1024 };

/* Strides of the grids, from the first one to the last, each twice the one before. Heads of the YOLO kind have a box
 * for each of their cells, and YOLOV5 three. */
typedef struct mr_box_strides {
    int32_t first, last;
} mr_box_strides;

/* An object's numbers besides its box. */
typedef enum mr_box_kind {
    MR_BOX_PLAIN,   /* nothing */
    MR_BOX_CORNERS, /* 4 corners: x and y of each, clockwise */
    MR_BOX_POINTS,  /* key points: x, y and score of each */
    MR_BOX_MASK,    /* mr_box_mask (box_numbers.h) */
    MR_BOX_KINDS
} mr_box_kind;

/* Where a value stands: in output `output`, from number `first`; `row` and `column` are the distances to the next box
 * and to the next value of this one. output < 0: nowhere. */
typedef struct mr_box_head_view {
    int output;
    int64_t first, row, column;
} mr_box_head_view;

typedef struct mr_box_head {
    mr_box_head_family family;
    int32_t width, height;   /* the network's input, px */
    int64_t rows;            /* boxes */
    int32_t classes;         /* columns with scores, without the background; 0: `class_numbers` has the classes */
    mr_box_head_view boxes, objectness, scores, class_numbers, angle;
    mr_dtype class_dtype;    /* of class_numbers */
    mr_box_order order;
    bool normalized, logits, suppress;
    bool boxes_turned, scores_turned; /* custom: they have a column for each box, not a row */
    bool grid;               /* YOLOX: boxes are relative to their cells */
    bool agnostic;           /* set by the caller: boxes of different classes are suppressed too */
    mr_box_strides strides;
    int32_t maps[4];         /* CenterFace: the outputs, in the order of the family */
    mr_box_kind kind;        /* what an object has besides its box */
    int32_t numbers;         /* how many numbers that is */
    int32_t points, point_numbers; /* key points of a box, and numbers of a point: 2, or 3 with a score */
    int32_t coefficients, prototypes; /* masks: how many coefficients a box has, and the output with the prototypes */
    int32_t mask_width, mask_height;  /* the prototypes' size in cells, stretched over the input */
    mr_box_head_view point, coefficient;
    float mask;              /* DB, set by the caller: limit of the map */
    double unclip;           /* DB, set by the caller: how far boxes grow */
    bool apart;              /* DB, set by the caller: they do not grow into those beside them */
} mr_box_head;

/* Names as users write them: "yolox". */
extern const char *const mr_box_head_names[MR_BOX_HEAD_FAMILIES + 1];

/* All that is known of a head: `custom` for MR_BOX_HEAD_CUSTOM, and the notes of the model's exporter, as Ultralytics
 * writes them. NULL: none. */
typedef struct mr_box_head_params {
    mr_box_head_family family; /* for mr_box_head_make */
    const mr_box_head_custom *custom;
    const mr_box_head *like;   /* custom: another head of the network, whose matrices are turned alike; NULL: their
                                  shapes decide */
    int32_t width, height;     /* the network's input, px */
    int32_t points;            /* key points, if `key_points` does not say it; each has three numbers */
    const char *task;          /* "detect", "pose", "obb" or "segment" */
    const char *key_points;    /* "[17, 3]": how many, and numbers of each: 2, or 3 with a score */
} mr_box_head_params;
int mr_box_head_make(mr_box_head *head, const mr_box_head_params *params, const mr_box_head_output *outputs,
                     size_t count);
/* Sets *family to the one that fits, or fails if none or several do. Without `task`, a head with key points or angles
 * is taken for one with more classes: only who trained it knows. */
int mr_box_head_find(mr_box_head_family *family, const mr_box_head_params *params, const mr_box_head_output *outputs,
                     size_t count);

/* A score above `score` has a raw number above this. */
float mr_box_raw_limit(const mr_box_head *head, float score);
/* The most candidates that an item can give: boxes times classes. */
size_t mr_box_head_most(const mr_box_head *head);
/* Whether a number that scores are made of is NaN: a network that overflows says nothing. Reads all of them. */
bool mr_box_head_has_nan(const mr_box_head *head, const void *const *data);
/* Adds all boxes whose score exceeds `score`. `data` has the outputs' items, in the order that mr_box_head_make got
 * them. `wanted` has a flag for each class, or MR_BOX_HEAD_MOST_CLASSES flags if the network gives class numbers; if it
 * is NULL, all are wanted. Boxes without a valid class number are skipped. */
void mr_box_head_decode(const mr_box_head *head, const void *const *data, float score, const bool *wanted,
                    mr_boxes *candidates);
/* The overlap from which boxes suppress each other; INFINITY: none does. */
static inline float mr_box_head_overlap(const mr_box_head *head, float overlap) {
    return head->suppress || head->agnostic ? overlap : INFINITY;
}
/* Keeps the best `most` boxes of which something lies in the input, suppressed if the head needs it. */
void mr_box_head_finish(const mr_box_head *head, float overlap, size_t most, mr_boxes *candidates);
