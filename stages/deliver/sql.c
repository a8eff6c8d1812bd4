#include "stages/deliver/sql.h"

#include <string.h>

static const char *const key_names[MR_KEY_COLUMNS] = {"source", "epoch", "seq", "sub"};

static bool has_table(const mr_db_tables *tables, const char *name) {
    for (size_t i = 0; i < tables->count; i++)
        if (strcmp(tables->tables[i].name, name) == 0)
            return true;
    return false;
}

/* The columns that follow the key. */
static size_t first_of(const mr_db_table *table) {
    return table->kind ? 0 : MR_KEY_COLUMNS;
}

/* The key: the frame's, and for elements stage and rank. */
static const char *key_of(const mr_db_table *table) {
    return table->kind ? "\"source\",\"epoch\",\"seq\",\"sub\",\"stage\",\"rank\""
                       : "\"source\",\"epoch\",\"seq\",\"sub\"";
}

const char *mr_sql_columns(mr_arena *arena, const mr_db_table *table, const char *before) {
    const char *text = mr_arena_print(arena, "%s\"source\",%s\"epoch\",%s\"seq\",%s\"sub\"", before, before, before,
                                      before);
    for (size_t i = first_of(table); text && i < table->count; i++)
        text = mr_arena_print(arena, "%s,%s\"%s\"", text, before, table->columns[i].name);
    return text;
}

const char *mr_sql_common(mr_arena *arena, const mr_sql_dialect *d) {
    const char *integer = d->types[MR_COLUMN_INTEGER], *text = d->types[MR_COLUMN_TEXT];
    return mr_arena_print(
        arena,
        "CREATE TABLE IF NOT EXISTS %sruns (id %s, run %s NOT NULL, pipeline %s NOT NULL, stage %s NOT NULL, "
        "started %s NOT NULL, UNIQUE (run, stage));"
        "CREATE TABLE IF NOT EXISTS %ssources (id %s, run %s NOT NULL REFERENCES %sruns (id), name %s NOT NULL, "
        "frames %s NOT NULL DEFAULT 0, epoch %s, seq %s, UNIQUE (run, name));",
        d->prefix, d->id, text, text, text, d->types[MR_COLUMN_DATE], d->prefix, d->id, integer, d->prefix, text,
        integer, integer, integer);
}

static const char *indices_of(mr_arena *arena, const mr_sql_dialect *d, const mr_db_table *table) {
    static const struct {
        const char *table, *name, *on;
    } all[] = {
        {"frames", "frames_captured", "captured) WHERE captured IS NOT NULL"},
        {"objects", "objects_track", "source, epoch, track) WHERE track IS NOT NULL"},
        {"events", "events_zone", "zone, source)"},
    };
    const char *text = "";
    for (size_t i = 0; text && i < sizeof all / sizeof *all; i++)
        if (strcmp(table->name, all[i].table) == 0)
            text = mr_arena_print(arena, "%sCREATE INDEX IF NOT EXISTS %s ON %s%s (%s;", text, all[i].name, d->prefix,
                                  table->name, all[i].on);
    return text;
}

const char *mr_sql_table(mr_arena *arena, const mr_sql_dialect *d, const mr_db_table *table) {
    const char *text = mr_arena_print(arena, "CREATE TABLE IF NOT EXISTS %s\"%s\" (", d->prefix, table->name);
    for (size_t i = 0; text && i < MR_KEY_COLUMNS; i++)
        text = mr_arena_print(arena, "%s\"%s\" %s NOT NULL, ", text, key_names[i], d->types[MR_COLUMN_INTEGER]);
    for (size_t i = first_of(table); text && i < table->count; i++)
        text = mr_arena_print(arena, "%s\"%s\" %s%s, ", text, table->columns[i].name,
                              d->types[table->columns[i].type], table->columns[i].field || !table->kind ? ""
                                                                                                        : " NOT NULL");
    const char *indices = text ? indices_of(arena, d, table) : NULL;
    return indices ? mr_arena_print(arena, "%sPRIMARY KEY (%s))%s;%s", text, key_of(table), d->keyed, indices)
                   : NULL;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* A frame's own columns, with names for the numbers. */
static const char *frames_view(mr_arena *arena, const mr_sql_dialect *d, const mr_db_table *table) {
    const char *text = mr_arena_print(arena, "SELECT r.pipeline, r.run, s.name AS source, f.epoch, f.seq, f.sub");
    for (size_t i = MR_KEY_COLUMNS; text && i < table->count; i++)
        text = mr_arena_print(arena, "%s, f.\"%s\"", text, table->columns[i].name);
    return text ? mr_arena_print(arena, "%s FROM %sframes f JOIN %ssources s ON s.id = f.source "
                                 "JOIN %sruns r ON r.id = s.run", text, d->prefix, d->prefix, d->prefix)
                : NULL;
}

static const char *elements_view(mr_arena *arena, const mr_sql_dialect *d, const mr_db_table *table) {
    const char *text = mr_arena_print(arena, "SELECT r.pipeline, r.run, s.name AS source, t.epoch, t.seq, t.sub, "
                                      "f.pts, f.captured, f.file");
    for (size_t i = 0; text && i < table->count; i++)
        text = mr_arena_print(arena, "%s, t.\"%s\"", text, table->columns[i].name);
    return text ? mr_arena_print(arena, "%s FROM %s\"%s\" t JOIN %sframes f ON f.source = t.source "
                                 "AND f.epoch = t.epoch AND f.seq = t.seq AND f.sub = t.sub "
                                 "JOIN %ssources s ON s.id = t.source JOIN %sruns r ON r.id = s.run", text, d->prefix,
                                 table->name, d->prefix, d->prefix, d->prefix)
                : NULL;
}

typedef struct views {
    mr_arena *arena;
    const mr_sql_dialect *dialect;
    const char *drops, *creates; /* NULL: no memory */
} views;

/* The view `name` with `ending`; it may refer to views that were added before. */
static void add_view(views *to, const char *name, const char *ending, const char *select) {
    const char *prefix = to->dialect->prefix;
    to->drops = to->drops ? mr_arena_print(to->arena, "DROP VIEW IF EXISTS %s%s%s; %s", prefix, name, ending, to->drops)
                          : NULL;
    to->creates = to->creates && select ? mr_arena_print(to->arena, "%sCREATE VIEW %s%s%s AS %s; ", to->creates, prefix,
                                                         name, ending, select)
                                        : NULL;
}

const char *mr_sql_views(mr_arena *arena, const mr_sql_dialect *d, const mr_db_tables *tables) {
    views all = {.arena = arena, .dialect = d, .drops = "", .creates = ""};
    for (size_t i = 0; i < tables->count; i++) {
        const mr_db_table *table = &tables->tables[i];
        add_view(&all, table->name, "_view", table->kind ? elements_view(arena, d, table)
                                                         : frames_view(arena, d, table));
    }
    if (has_table(tables, "classes"))
        add_view(&all, "top_classes", "", mr_arena_print(arena, "SELECT * FROM %sclasses_view WHERE rank = 1",
                                                         d->prefix));
    if (has_table(tables, "objects"))
        add_view(&all, "tracks", "", mr_arena_print(arena, "SELECT pipeline, run, source, epoch, track, "
                                                    "max(class) AS class, count(*) AS frames, min(pts) AS first_pts, "
                                                    "max(pts) AS last_pts, max(score) AS best_score "
                                                    "FROM %sobjects_view WHERE track IS NOT NULL "
                                                    "GROUP BY pipeline, run, source, epoch, track", d->prefix));
    return all.drops && all.creates ? mr_arena_print(arena, "%s%s", all.drops, all.creates) : NULL;
}
