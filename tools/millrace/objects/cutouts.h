/* Pictures of labelled objects, as data for training: each object of a data set is cut out as `crop` does, into a PNG
 * file of its own, and a list names these files with their classes. Objects of one picture form a group.
 *
 * Data sets: COCO's annotations, a file *.json (coco.h); or a folder in YOLO's layout, with pictures in `images` and a
 * text for each, with the same name, in `labels`. A line in a text is the number of the class, and the centre, width
 * and height of the box in 0..1 of the picture. `classes.txt` in the folder has the names of the classes, one a line.
 *
 * One thread. Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_MEMORY, MR_ERROR_IO, MR_ERROR_CANCELLED;
 * MR_ERROR_DATA with the file and the fault. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct mr_cutouts_params {
    const char *data;
    const char *pictures;  /* COCO: the folder in which the annotations' paths begin; NULL: that of `data` */
    const char *folder;    /* to write into; must exist. Files of an earlier call are replaced */
    bool (*stopped)(void); /* called from time to time; true: MR_ERROR_CANCELLED */
} mr_cutouts_params;

/* Whether `data` names labelled objects. */
bool mr_has_labelled_objects(const char *data);
/* Writes the pictures, and the path of their list to `list`. *told: diagnostics were printed. */
int mr_cutouts_make(const mr_cutouts_params *params, char *list, size_t room, bool *told);
