#include "stages/deliver/sql.h"

#include <string.h>

static const char *const key_names[MR_KEY_COLUMNS] = {"source", "epoch", "seq", "sub"};

static const mr_db_table *find(const mr_db_tables *tables, const char *name) {
    for (size_t i = 0; i < tables->count; i++)
        if (strcmp(tables->tables[i].name, name) == 0)
            return &tables->tables[i];
    return NULL;
}

/* The columns that follow the key. */
static size_t first_of(const mr_db_table *table) {
    return table->kind ? 0 : MR_KEY_COLUMNS;
}

const char *mr_sql_key(const mr_db_table *table) {
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
    return indices ? mr_arena_print(arena, "%sPRIMARY KEY (%s))%s;%s", text, mr_sql_key(table), d->keyed, indices)
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

static mr_sql_view special_view(mr_arena *arena, const mr_sql_dialect *d, const mr_db_tables *tables, size_t index) {
    const char *const needs[] = {"classes", "objects"};
    const char *const names[] = {"top_classes", "tracks"};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (!find(tables, needs[i]) || index-- > 0)
            continue;
        return (mr_sql_view){
            names[i],
            i == 0 ? mr_arena_print(arena, "SELECT * FROM %sclasses_view WHERE rank = 1", d->prefix)
                   : mr_arena_print(arena, "SELECT pipeline, run, source, epoch, track, max(class) AS class, "
                                    "count(*) AS frames, min(pts) AS first_pts, max(pts) AS last_pts, "
                                    "max(score) AS best_score FROM %sobjects_view WHERE track IS NOT NULL "
                                    "GROUP BY pipeline, run, source, epoch, track", d->prefix)};
    }
    return (mr_sql_view){0};
}

mr_sql_view mr_sql_view_at(mr_arena *arena, const mr_sql_dialect *d, const mr_db_tables *tables, size_t index) {
    if (index >= tables->count)
        return special_view(arena, d, tables, index - tables->count);
    const mr_db_table *table = &tables->tables[index];
    return (mr_sql_view){mr_arena_print(arena, "%s_view", table->name),
                         table->kind ? elements_view(arena, d, table) : frames_view(arena, d, table)};
}
