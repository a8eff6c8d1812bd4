/* Any bytes as a list of files in CSV or JSON lines, as JSON, as COCO's annotations, as texts with objects in YOLO's
 * and MOTChallenge's layouts, and as a request at the control socket of a run that has no pipeline yet. Nothing may
 * crash or leak; what is refused is refused with a reason. The first byte chooses.
 *
 *     tests/fuzz/run 60 fuzz_lists */
#include <string.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/media/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/objects/mot.h"
#include "tools/millrace/objects/yolo.h"
#include "tools/millrace/run/control_answer.h"

static int take_row(void *vectors, const mr_manifest_row *row) {
    const bool may_be_empty = *(const bool *)vectors;
    fault_if(!row->path || (!*row->path && !may_be_empty) || row->line == 0 || row->start_ns < 0 || row->end_ns < 0 ||
             (row->end_ns && row->end_ns <= row->start_ns) || (row->label && !*row->label));
    return MR_OK;
}

static void read_list(const char *name, bool vectors, const uint8_t *data, size_t bytes) {
    char *unused = NULL;
    int status = mr_manifest_read(fuzz_file(name, data, bytes), vectors, take_row, &vectors, &unused);
    fuzz_expect_reason(status);
    mr_free(unused);
}

static void read_json(const char *text) {
    char wrong[32] = "";
    yajl_val tree = mr_json_parse(text, wrong, sizeof wrong);
    fault_if(!tree && (!*wrong || !memchr(wrong, 0, sizeof wrong) || strchr(wrong, '\n')));
    if (tree)
        yajl_tree_free(tree);
}

/* The answer is a line of JSON that says no. */
static void ask(const char *line) {
    size_t length = 0;
    char *answer = mr_control_answer(line, NULL, NULL, &length);
    fault_if(!answer || length == 0 || strlen(answer) != length || strchr(answer, '\n') != answer + length - 1);
    yajl_val tree = mr_json_parse(answer, NULL, 0);
    static const char *const way[] = {"ok", NULL};
    fault_if(!tree || !YAJL_IS_FALSE(yajl_tree_get(tree, (const char **)way, yajl_t_any)));
    yajl_tree_free(tree);
    free(answer);
}

/* Objects refer to pictures and classes that there are. */
static void read_coco(const uint8_t *data, size_t bytes) {
    mr_coco coco;
    int status = mr_coco_read(&coco, fuzz_file("coco.json", data, bytes), NULL);
    fuzz_expect_reason(status);
    for (size_t i = 0; i < coco.object_count && !status; i++) {
        const mr_boxed *one = &coco.objects[i];
        fault_if(one->image >= coco.picture_count || one->label < 0 || (size_t)one->label >= coco.class_count ||
                 !(one->width >= 0) || !(one->height >= 0) || one->track < 0);
    }
    for (size_t i = 0; i < coco.picture_count && !status; i++)
        fault_if(!coco.pictures[i] || coco.sequence[i] >= coco.sequence_count ||
                 (i && coco.sequence[i] < coco.sequence[i - 1]));
    mr_coco_fini(&coco);
}

static void read_mot(const uint8_t *data, size_t bytes) {
    mr_coco coco;
    int status = mr_mot_read(&coco, fuzz_file("gt.txt", data, bytes));
    fuzz_expect_reason(status);
    for (size_t i = 0; i < coco.object_count && !status; i++) {
        const mr_boxed *one = &coco.objects[i];
        fault_if(one->image >= coco.picture_count || one->label < -1 || one->label > 0 || !(one->width >= 0) ||
                 !(one->height >= 0) || one->track < 1);
    }
    mr_coco_fini(&coco);
}

static void read_yolo(char *text) {
    mr_coco objects = {0};
    size_t room = 0;
    int status = mr_yolo_read_text(&objects, &room, "labels.txt", 3, text);
    fuzz_expect_reason(status);
    for (size_t i = 0; i < objects.object_count && !status; i++) {
        const mr_boxed *one = &objects.objects[i];
        fault_if(one->image != 3 || one->label < 0 || (size_t)one->label >= objects.class_count ||
                 !(one->width >= 0 && one->width <= 1) || !(one->left >= -0.5 && one->left <= 1));
    }
    mr_coco_fini(&objects);
}

FUZZ(data, bytes) {
    if (!bytes)
        return;
    char *text = (char *)fuzz_copy(data + 1, bytes - 1, 1);
    switch (data[0] % 9) {
    case 0:
    case 1:
        read_list("list.csv", data[0] % 9, data + 1, bytes - 1);
        break;
    case 2:
    case 3:
        read_list("list.jsonl", data[0] % 9 == 3, data + 1, bytes - 1);
        break;
    case 4:
        read_json(text);
        break;
    case 5:
        ask(text);
        break;
    case 6:
        read_yolo(text);
        break;
    case 7:
        read_mot(data + 1, bytes - 1);
        break;
    default:
        read_coco(data + 1, bytes - 1);
    }
    free(text);
}
