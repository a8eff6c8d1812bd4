#include "engine/text/yaml.h"

#include <string.h>
#include <yaml.h>

#include "engine/base/utf8.h"
#include "engine/text/input_hint.h"
#include "millrace/status.h"

enum { MAX_ERRORS = 100 };

/* A tree while it is being read: the open maps and lists from the root down, and for each map the key that needs a
 * value. */
typedef struct builder {
    yaml_parser_t parser;
    mr_arena *arena;
    mr_diagnostics *diagnostics;
    size_t first_error; /* errors that were there before */
    const char *file;
    const char *text; /* the whole text, `bytes` long */
    size_t bytes;
    bool override;
    yaml_mark_t quote, quote_end; /* the last quoted text that spans several lines; all zero: none */
    mr_yaml *root;
    int depth, documents, nodes; /* nodes: keys are counted too */
    mr_yaml *open[MR_YAML_MAX_DEPTH];
    const char *key[MR_YAML_MAX_DEPTH];
    mr_location key_place[MR_YAML_MAX_DEPTH];
    bool bracketed[MR_YAML_MAX_DEPTH]; /* written with brackets or braces, which begin at */
    yaml_mark_t bracket[MR_YAML_MAX_DEPTH];
} builder;

static mr_location place_of(const builder *b, const yaml_mark_t *mark) {
    mr_location place = {.file = b->file};
    if (!b->override) {
        place.line = (int)mark->line + 1;
        place.column = (int)mark->column + 1;
    }
    return place;
}

/* For messages about the whole text. */
static mr_location start_of(const builder *b) {
    return place_of(b, &(yaml_mark_t){0});
}

static int refuse(const builder *b, mr_location place, const char *hint, const char *message) {
    return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, hint, "%s", message);
}

mr_yaml *mr_yaml_new(mr_arena *arena, mr_yaml_kind kind, mr_location place) {
    mr_yaml *node = mr_arena_alloc(arena, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->place = place;
    return node;
}

static void append(mr_yaml *parent, mr_yaml *child) {
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

/* Puts `child` where `old` is among the parent's children; the caller must update the index. */
static void replace_child(mr_yaml *parent, const mr_yaml *old, mr_yaml *child) {
    mr_yaml **link = &parent->first;
    while (*link != old)
        link = &(*link)->next;
    *link = child;
    child->next = old->next;
    if (parent->last == old)
        parent->last = child;
}

int mr_yaml_put(mr_yaml *map, mr_arena *arena, const char *key, mr_location key_place, mr_yaml *value) {
    mr_yaml *old = mr_index_get(&map->index, key);
    value->key = key;
    value->key_place = key_place;
    if (mr_index_put(&map->index, arena, key, value))
        return MR_ERROR_MEMORY;
    if (old)
        replace_child(map, old, value);
    else
        append(map, value);
    return MR_OK;
}

/* A key seen twice: the first one stays. */
static void refuse_duplicate(const builder *b, const mr_yaml *first, mr_location place) {
    char hint[64];
    snprintf(hint, sizeof hint, "remove one of them");
    if (b->override)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, hint, "duplicate key \"%s\"",
                    first->key);
    else
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, hint,
                    "duplicate key \"%s\"; it is already at line %d, column %d", first->key, first->key_place.line,
                    first->key_place.column);
}

/* Puts a value at the current place: at the root, at the end of a list, or after the pending key. */
static int place_value(builder *b, mr_yaml *value) {
    if (b->depth == 0) {
        b->root = value;
        return MR_OK;
    }
    mr_yaml *parent = b->open[b->depth - 1];
    if (parent->kind == MR_YAML_LIST) {
        append(parent, value);
        return MR_OK;
    }
    const char *key = b->key[b->depth - 1];
    b->key[b->depth - 1] = NULL;
    mr_location key_place = b->key_place[b->depth - 1];
    const mr_yaml *first = mr_index_get(&parent->index, key);
    if (first) {
        refuse_duplicate(b, first, key_place);
        parent->doubled = true;
        return MR_OK;
    }
    return mr_yaml_put(parent, b->arena, key, key_place, value);
}

static bool awaits_key(const builder *b) {
    return b->depth > 0 && b->open[b->depth - 1]->kind == MR_YAML_MAP && !b->key[b->depth - 1];
}

static void note_quote(builder *b, const yaml_event_t *event) {
    yaml_scalar_style_t style = event->data.scalar.style;
    bool quoted = style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    if (!quoted || event->start_mark.line == event->end_mark.line)
        return;
    b->quote = event->start_mark;
    b->quote_end = event->end_mark;
}

static int on_scalar(builder *b, const yaml_event_t *event, mr_location place) {
    const char *text = mr_arena_text(b->arena, (const char *)event->data.scalar.value, event->data.scalar.length);
    if (!text)
        return MR_ERROR_MEMORY;
    if (strlen(text) != event->data.scalar.length)
        return refuse(b, place, NULL, "a text cannot hold a zero byte (\\0)");
    if (awaits_key(b)) {
        b->key[b->depth - 1] = text;
        b->key_place[b->depth - 1] = place;
        return MR_OK;
    }
    mr_yaml *node = mr_yaml_new(b->arena, MR_YAML_SCALAR, place);
    if (!node)
        return MR_ERROR_MEMORY;
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (!node->quoted && (strncmp(text, "\u201c", 3) == 0 || strncmp(text, "\u2018", 3) == 0))
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place, "write \" or ' in place of it",
                    "a typographic quote is a part of the value");
    return place_value(b, node);
}

/* Before on_start, which refuses nesting that is too deep. */
static void note_bracket(builder *b, const yaml_event_t *event, bool bracketed) {
    if (b->depth == MR_YAML_MAX_DEPTH)
        return;
    b->bracketed[b->depth] = bracketed;
    b->bracket[b->depth] = event->start_mark;
}

static int on_start(builder *b, mr_yaml_kind kind, mr_location place) {
    if (awaits_key(b))
        return refuse(b, place, "write the key as plain text", "a key cannot be a list or a map");
    if (b->depth == MR_YAML_MAX_DEPTH)
        return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, NULL,
                           "lists and maps are nested more than %d deep", MR_YAML_MAX_DEPTH);
    mr_yaml *node = mr_yaml_new(b->arena, kind, place);
    if (!node)
        return MR_ERROR_MEMORY;
    if (place_value(b, node))
        return MR_ERROR_MEMORY;
    b->key[b->depth] = NULL;
    b->open[b->depth++] = node;
    return MR_OK;
}

/* Anchors and tags do no harm by themselves. Reading continues, so that later errors are found too. */
static void refuse_extras(const builder *b, const yaml_char_t *anchor, const yaml_char_t *tag, mr_location place) {
    if (anchor)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place,
                    "write the value out wherever it is needed", "anchors (&%s) are not accepted",
                    (const char *)anchor);
    if (tag)
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, "remove the tag",
                    "tags (%s) are not accepted", (const char *)tag);
}

static int on_alias(builder *b, const yaml_event_t *event, mr_location place) {
    if (awaits_key(b))
        return refuse(b, place, "write the key as plain text", "a key cannot be an alias");
    mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place,
                "write the value out, or put it in quotes if the * belongs to it", "aliases (*%s) are not accepted",
                (const char *)event->data.alias.anchor);
    mr_yaml *node = mr_yaml_new(b->arena, MR_YAML_SCALAR, place);
    if (!node)
        return MR_ERROR_MEMORY;
    node->text = "";
    node->broken = true;
    return place_value(b, node);
}

static int count_node(builder *b, mr_location place) {
    if (++b->nodes <= MR_YAML_MAX_NODES)
        return MR_OK;
    return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, NULL,
                       "there are more than %d keys and values", MR_YAML_MAX_NODES);
}

/* Takes one event in. MR_DONE-like: 0 go on, 1 the end, negative: stop. */
static int on_event(builder *b, const yaml_event_t *event) {
    mr_location place = place_of(b, &event->start_mark);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ > 0)
            return refuse(b, place, "remove the \"---\" and everything after it", "there is a second document");
        return 0;
    case YAML_SCALAR_EVENT:
        note_quote(b, event);
        refuse_extras(b, event->data.scalar.anchor, event->data.scalar.tag, place);
        return count_node(b, place) ? MR_ERROR_CONFIG : on_scalar(b, event, place);
    case YAML_SEQUENCE_START_EVENT:
        refuse_extras(b, event->data.sequence_start.anchor, event->data.sequence_start.tag, place);
        note_bracket(b, event, event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
        return count_node(b, place) ? MR_ERROR_CONFIG : on_start(b, MR_YAML_LIST, place);
    case YAML_MAPPING_START_EVENT:
        refuse_extras(b, event->data.mapping_start.anchor, event->data.mapping_start.tag, place);
        note_bracket(b, event, event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
        return count_node(b, place) ? MR_ERROR_CONFIG : on_start(b, MR_YAML_MAP, place);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return on_alias(b, event, place);
    case YAML_STREAM_END_EVENT:
        return 1;
    default:
        return 0;
    }
}

/* Whether "{word}" is there: one word in small letters, as in file names. */
static bool is_word_in_braces(const char *at, const char *end) {
    const char *letter = at + 1;
    while (letter < end && *letter >= 'a' && *letter <= 'z')
        letter++;
    return *at == '{' && letter > at + 1 && letter < end && *letter == '}';
}

/* For a line with a variable, or a word, in braces that no quotes protect: to YAML a brace begins a map. Else NULL. */
static const char *braces_hint(const builder *b, size_t line) {
    const char *at = b->text, *end = b->text + b->bytes;
    for (; line > 0 && at < end; line--) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        at = next ? next + 1 : end;
    }
    for (; at + 1 < end && *at != '\n'; at++) {
        const bool begins = at == b->text || strchr(" ,[{:", at[-1]);
        if (begins && at > b->text && at[0] == '$' && at[1] == '{')
            return "inside braces or brackets put a variable in quotes: {uri: \"${VIDEO}\"}";
        if (begins && is_word_in_braces(at, end))
            return "put a text with braces in quotes, such as \"{source}-{seq}.jpg\"";
    }
    return NULL;
}

/* The usual mistakes that cause libyaml's errors. */
static const char *syntax_hint(const char *problem) {
    static const struct {
        const char *problem, *hint;
    } hints[] = {
        {"mapping values are not allowed", "put a value that holds \": \" in quotes, write a space after each "
                                           "colon, and check the indentation"},
        {"cannot start any token",
         "indent with spaces, not tabs, and put a value that begins with %, @ or ` in quotes"},
        {"could not find expected ':'", "a key is followed by a colon and a space"},
        {"did not find expected key", "check the indentation: entries of one map or list begin in the same column"},
        {"did not find expected '-'", "check the indentation: entries of one map or list begin in the same column"},
        {"expected ',' or", "the bracket or brace is not closed, or a comma is missing in it"},
        {"expected node content", "the bracket or brace is not closed, or a value is missing in it"},
        {"unexpected end of stream", "the quote that opens here is not closed"},
        {"unknown escape character", "in double quotes a backslash is written twice, or use single quotes"},
        {"hexdecimal number", "in double quotes a backslash is written twice, or use single quotes"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (problem && strstr(problem, hints[i].problem))
            return hints[i].hint;
    return NULL;
}

/* The place of the mistake. libyaml stops where it cannot read on; for a quote or bracket that is not closed that is a
 * correct line, and the opening quote or bracket is in the error's context. */
static yaml_mark_t mistake_of(const builder *b) {
    const yaml_parser_t *parser = &b->parser;
    bool unclosed = parser->problem && (strstr(parser->problem, "unexpected end of stream") ||
                                        strstr(parser->problem, "expected ',' or"));
    bool earlier = unclosed && parser->context && parser->context_mark.line < parser->problem_mark.line;
    yaml_mark_t mark = earlier ? parser->context_mark : parser->problem_mark;
    /* If the text ends in the middle of a list, only the open bracket shows the mistake. */
    if (b->depth > 0 && b->bracketed[b->depth - 1] && parser->problem &&
        strstr(parser->problem, "expected node content") && b->bracket[b->depth - 1].line < mark.line)
        mark = b->bracket[b->depth - 1];
    /* An open quote swallows the text up to the next quote, and the text after that makes no sense. */
    bool swallowed = b->quote_end.line > b->quote.line &&
                     (mark.line == b->quote_end.line || parser->problem_mark.line == b->quote_end.line);
    return swallowed ? b->quote : mark;
}

static int syntax_error(const builder *b) {
    const yaml_parser_t *parser = &b->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return mr_fail(MR_ERROR_MEMORY, "no memory to read %s", b->file);
    const char *context = parser->context ? parser->context : "";
    const yaml_mark_t mark = mistake_of(b), *stopped = &parser->problem_mark;
    char where[64] = "";
    const char *hint = syntax_hint(parser->problem), *braces = braces_hint(b, mark.line);
    if (mark.line != stopped->line && !b->override)
        snprintf(where, sizeof where, " (line %zu, column %zu)", stopped->line + 1, stopped->column + 1);
    if (braces)
        hint = braces;
    else if (b->quote_end.line > b->quote.line && mark.index == b->quote.index)
        hint = "the quote that opens here is not closed on its line";
    return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place_of(b, &mark), hint,
                       "this is not YAML: %s%s%s%s", parser->problem ? parser->problem : "unreadable",
                       *context ? " " : "", context, where);
}

static int read_events(builder *b) {
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return syntax_error(b);
        int answer = on_event(b, &event);
        yaml_event_delete(&event);
        if (answer)
            return answer > 0 ? MR_OK : answer;
        if (b->diagnostics->errors - b->first_error > MAX_ERRORS)
            return refuse(b, start_of(b), NULL, "there are too many errors; reading stops here");
    }
}

/* Refuses a text that is too long or not text, before libyaml reads it. */
static int check_text(const builder *b, const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text;
    mr_location place = start_of(b);
    char room[MR_INPUT_HINT];
    const char *input = b->override ? NULL : mr_input_hint(b->file, false, room);
    const char *hint = input ? input : "save the file as UTF-8";
    if (bytes > MR_YAML_MAX_BYTES)
        return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, input,
                           "the text is longer than %d bytes", MR_YAML_MAX_BYTES);
    for (size_t i = 0, length; i < bytes; i += length) {
        length = mr_utf8_bytes(text + i, bytes - i);
        if (length == 0)
            return mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, place, hint,
                               at[i] ? "byte 0x%02x is not UTF-8" : "the text holds a zero byte (0x%02x)", at[i]);
        place.column++;
        if (at[i] == '\n' && !b->override) {
            place.line++;
            place.column = 1;
        }
    }
    return MR_OK;
}

int mr_yaml_parse(mr_yaml **root, mr_arena *arena, const char *file, const char *text, size_t bytes, bool override,
                  mr_diagnostics *diagnostics) {
    builder b = {.arena = arena,
                 .diagnostics = diagnostics,
                 .first_error = diagnostics->errors,
                 .file = file,
                 .override = override};
    *root = NULL;
    /* libyaml knows the mark only if it may guess the encoding itself. */
    size_t mark = mr_utf8_mark(text, bytes);
    text += mark;
    bytes -= mark;
    b.text = text;
    b.bytes = bytes;
    int status = check_text(&b, text, bytes);
    if (status)
        return status;
    if (!yaml_parser_initialize(&b.parser))
        return mr_fail(MR_ERROR_MEMORY, "no memory to read %s", file);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, bytes);
    status = read_events(&b);
    yaml_parser_delete(&b.parser);
    if (status)
        return status;
    *root = b.root;
    return diagnostics->errors > b.first_error ? MR_ERROR_CONFIG : MR_OK;
}

mr_yaml *mr_yaml_get(const mr_yaml *map, const char *key) {
    return map && map->kind == MR_YAML_MAP ? mr_index_get(&map->index, key) : NULL;
}

mr_location mr_yaml_item_place(const mr_yaml *map, const char *key, size_t i) {
    const mr_yaml *said = mr_yaml_get(map, key);
    if (said->kind != MR_YAML_LIST)
        return said->place;
    const mr_yaml *item = said->first;
    while (i-- > 0)
        item = item->next;
    return item->place;
}

const mr_yaml *mr_yaml_nearest(const mr_yaml *node, const char *path) {
    while (node) {
        char key[128];
        size_t length = strcspn(path, ".");
        if (length >= sizeof key)
            return node;
        memcpy(key, path, length);
        key[length] = 0;
        const mr_yaml *child = mr_yaml_get(node, key);
        if (!child)
            return node;
        node = child;
        if (!path[length])
            return node;
        path += length + 1;
    }
    return node;
}

bool mr_yaml_is_null(const mr_yaml *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != MR_YAML_SCALAR || node->quoted)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

const char *mr_yaml_found(const mr_yaml *node, char *text, size_t bytes) {
    enum { SHOWN = 40 };
    if (node->kind != MR_YAML_SCALAR)
        snprintf(text, bytes, "%s", node->kind == MR_YAML_LIST ? "a list" : "a map");
    else if (mr_yaml_is_null(node))
        snprintf(text, bytes, "nothing");
    else {
        /* Cut before a character, never inside one. */
        size_t length = strlen(node->text), shown = length;
        if (length > SHOWN)
            for (shown = SHOWN; shown > 0 && ((unsigned char)node->text[shown] & 0xc0) == 0x80;)
                shown--;
        snprintf(text, bytes, "\"%.*s%s\"", (int)shown, node->text, shown < length ? "..." : "");
        for (char *at = text; *at; at++)
            if ((unsigned char)*at < ' ')
                *at = ' ';
    }
    return text;
}

static const char *copy_text(mr_arena *arena, const char *text) {
    return text ? mr_arena_text(arena, text, strlen(text)) : NULL;
}

mr_yaml *mr_yaml_copy(mr_arena *arena, const mr_yaml *from, const char *file) {
    mr_yaml *copy = mr_yaml_new(arena, from->kind, from->place);
    if (!copy)
        return NULL;
    copy->quoted = from->quoted;
    copy->expanded = from->expanded;
    copy->broken = from->broken;
    copy->place.file = file;
    copy->text = copy_text(arena, from->text);
    copy->user = copy_text(arena, from->user);
    copy->password = copy_text(arena, from->password);
    if ((from->text && !copy->text) || (from->user && !copy->user) || (from->password && !copy->password))
        return NULL;
    for (const mr_yaml *child = from->first; child; child = child->next) {
        mr_yaml *twin = mr_yaml_copy(arena, child, file);
        mr_location place = child->key_place;
        const char *key = copy_text(arena, child->key);
        place.file = file;
        if (!twin || (child->key && (!key || mr_yaml_put(copy, arena, key, place, twin))))
            return NULL;
        if (!child->key)
            append(copy, twin);
    }
    return copy;
}
