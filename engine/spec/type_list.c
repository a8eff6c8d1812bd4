#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/kinds.h"
#include "millrace/millrace.h"

/* The file that a type came with: a plugin, a library or the program itself. */
static const char *origin(const mr_stage_type *type) {
    Dl_info info;
    return dladdr(type, &info) && info.dli_fname ? info.dli_fname : "this program";
}

static int check_name(const mr_type_list *list, const mr_stage_type *type) {
    for (size_t i = 0; i < list->count; i++) {
        const mr_stage_type *other = list->item[i];
        if ((other->inputs == NULL) == (type->inputs == NULL) && strcmp(other->name, type->name) == 0)
            return mr_fail(MR_ERROR_DATA, "the %s type \"%s\" of %s already exists, from %s: give it another name",
                           type->inputs ? "stage" : "source", type->name, origin(type), origin(other));
    }
    return MR_OK;
}

/* Whether each type's result kinds match the kinds' names. */
static int check_kinds(const mr_type_list *list) {
    mr_kinds kinds = mr_kinds_built_in();
    for (size_t i = 0; i < list->count; i++) {
        char why[256];
        if (!mr_kinds_add(&kinds, list->item[i]->kinds))
            continue;
        snprintf(why, sizeof why, "%s", mr_message());
        return mr_fail(MR_ERROR_DATA, "the stage type \"%s\" of %s: %s", list->item[i]->name, origin(list->item[i]),
                       why);
    }
    return MR_OK;
}

static bool holds(const mr_type_list *list, const mr_stage_type *type) {
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i] == type)
            return true;
    return false;
}

int mr_type_list_add(mr_type_list *list, const mr_stage_type *const *types, bool own_names) {
    size_t more = 0, before = list->count;
    while (types && types[more])
        more++;
    const mr_stage_type **item = mr_calloc(list->count + more + 1, sizeof *item);
    if (!item)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu stage types", list->count + more);
    if (list->count > 0)
        memcpy(item, list->item, list->count * sizeof *item);
    mr_free(list->item);
    list->item = item;
    int status = MR_OK;
    for (size_t i = 0; i < more && !status; i++) {
        if (holds(list, types[i]))
            continue;
        status = own_names ? check_name(list, types[i]) : MR_OK;
        if (!status)
            list->item[list->count++] = types[i];
    }
    if (!status)
        status = check_kinds(list);
    if (status) {
        list->count = before;
        list->item[before] = NULL;
    }
    return status;
}

void mr_type_list_fini(mr_type_list *list) {
    mr_free(list->item);
    *list = (mr_type_list){0};
}
