#include "stages/live/web/dash.h"

#include <inttypes.h>
#include <libavutil/mathematics.h>
#include <libavutil/parseutils.h>
#include <libxml/parser.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "millrace/stage.h"

enum {
    MOST_SEGMENTS = 100000,
    MOST_ELEMENTS = 250000,
    MOST_ATTRIBUTES = 4000,  /* of an element: until 2.12 libxml2 compares each with all others of it */
    LIVE_SEGMENTS = 60,      /* of a live stream only the newest are of use */
    FIRST_NUMBER = 1 << 20,  /* so that a list may still begin earlier than the one before */
};
static const int64_t second_ns = 1000000000;
#define MOST_NS INT64_C(2000000000000000000) /* of a time */
#define MOST_UNITS (INT64_MAX / 4)           /* likewise, in units of less than a second */

/* How the segments of a period are found. Their description may stand in the period, in the set or in the video. */
typedef struct way {
    const xmlNode *levels[3];     /* the innermost first */
    const char *id;
    int64_t bandwidth;
    char base[MR_URL_BYTES];
    int64_t begin_ns, end_ns;     /* in the presentation; INT64_MAX: not known */
    int64_t scale, offset, first; /* units of a second, time of the period's beginning, number of its first segment */
} way;

typedef struct segment {
    const xmlNode *named; /* in a list */
    int64_t number, time; /* time in units */
    int64_t begin_ns, duration_ns;
} segment;

typedef struct manifest {
    const mr_dash_params *params;
    const xmlNode *root;
    bool live;
    int64_t began_ns;     /* live: when the presentation began, since 1970 */
    int64_t date_ns;      /* now, by the server's clock if it tells */
    int64_t kept_ns;      /* live: for how long segments are there */
    way of;               /* of the period that is taken */
    segment *segments;
    size_t count, room;
} manifest;

/* ---- XML --------------------------------------------------------------------------------------------------------- */

static bool is_named(const xmlNode *node, const char *name) {
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

/* The next element of that name, from that node on. */
static const xmlNode *find(const xmlNode *node, const char *name) {
    while (node && !is_named(node, name))
        node = node->next;
    return node;
}

static const xmlNode *child(const xmlNode *of, const char *name) {
    return of ? find(of->children, name) : NULL;
}

static const char *content(const xmlNode *text) {
    bool there = text && (text->type == XML_TEXT_NODE || text->type == XML_CDATA_SECTION_NODE) && text->content;
    return there ? (const char *)text->content : NULL;
}

/* An attribute; NULL: there is none. */
static const char *attribute(const xmlNode *of, const char *name) {
    const xmlAttr *found = of ? xmlHasProp(of, (const xmlChar *)name) : NULL;
    return found ? content(found->children) : NULL;
}

static int64_t number_of(const xmlNode *of, const char *name, int64_t otherwise) {
    const char *text = attribute(of, name);
    char *end;
    int64_t value = text ? strtoll(text, &end, 10) : otherwise;
    return text && (end == text || *end) ? otherwise : value;
}

/* A duration of ISO 8601: P0Y0M1DT2H3M4.5S, with years of 365 days and months of 30; -1: it is none. */
static int64_t read_duration(const char *text) {
    static const struct {
        char sign;
        bool time;
        double seconds;
    } units[] = {{'Y', false, 365 * 86400}, {'M', false, 30 * 86400}, {'D', false, 86400},
                 {'H', true, 3600},        {'M', true, 60},          {'S', true, 1}};
    const size_t count = sizeof units / sizeof *units;
    double sum = 0;
    bool time = false;
    if (!text || *text++ != 'P')
        return -1;
    while (*text) {
        time |= *text == 'T';
        text += *text == 'T';
        char *end;
        const double value = strtod(text, &end);
        size_t i = 0;
        while (i < count && (units[i].sign != *end || units[i].time != time))
            i++;
        if (end == text || i == count || !(value >= 0 && value < 1e9))
            return -1;
        sum += value * units[i].seconds;
        text = end + 1;
    }
    return sum < 1e9 ? (int64_t)(sum * 1e9) : -1;
}

static int64_t duration_of(const xmlNode *of, const char *name) {
    return read_duration(attribute(of, name));
}

/* A date, in ns since 1970; 0: it is none. */
static int64_t date_of(const char *text) {
    int64_t date_us;
    if (!text || av_parse_time(&date_us, text, 0) < 0)
        return 0;
    return date_us > 0 && date_us < INT64_MAX / 1000 ? date_us * 1000 : 0;
}

/* ---- URLs -------------------------------------------------------------------------------------------------------- */

/* The length of the part of a URL that a reference keeps: its folder, its host, or its path. Dots are libavformat's
 * to resolve. */
static size_t kept_of(const char *base, const char *reference) {
    const char *host = strstr(base, "://"), *path = host ? host + 3 + strcspn(host + 3, "/?#") : base;
    const char *end = path + strcspn(path, "?#"), *slash = end;
    if (strncmp(reference, "//", 2) == 0)
        return host ? (size_t)(host - base) + 1 : 0;
    if (*reference == '/')
        return (size_t)(path - base);
    if (*reference == '?' || !*reference)
        return (size_t)(end - base);
    while (slash > path && slash[-1] != '/')
        slash--;
    return (size_t)(slash - base);
}

/* `base` becomes the URL that the reference in it leads to (RFC 3986, 5.2). False: it is too long. */
static bool follow(char base[MR_URL_BYTES], const char *reference) {
    char whole[MR_URL_BYTES];
    mr_url url;
    const int kept = mr_url_split(reference, &url) ? 0 : (int)kept_of(base, reference);
    const bool folder = kept && *reference && !strchr("/?", *reference) && base[kept - 1] != '/';
    const int bytes = snprintf(whole, sizeof whole, "%.*s%s%s", kept, base, folder ? "/" : "", reference);
    if (bytes < 0 || bytes >= MR_URL_BYTES)
        return false;
    memcpy(base, whole, (size_t)bytes + 1);
    return true;
}

static bool follow_base(char base[MR_URL_BYTES], const xmlNode *of) {
    const xmlNode *node = child(of, "BaseURL");
    const char *text = node ? content(node->children) : NULL;
    char trimmed[MR_URL_BYTES];
    if (!text)
        return true;
    text += strspn(text, " \t\r\n");
    return snprintf(trimmed, sizeof trimmed, "%.*s", (int)strcspn(text, " \t\r\n"), text) < MR_URL_BYTES &&
           follow(base, trimmed);
}

/* The value of "$Name$" or "$Name%05d$" in a template; false: there is no such name. */
static bool fill_in(FILE *to, const way *of, const segment *one, const char *name, size_t bytes) {
    const char *format = memchr(name, '%', bytes);
    const size_t length = format ? (size_t)(format - name) : bytes;
    const struct {
        const char *name;
        int64_t value;
    } known[] = {{"Number", one->number}, {"Time", one->time}, {"Bandwidth", of->bandwidth}};
    char *end = NULL;
    const long width = format ? strtol(format + 1, &end, 10) : 1;
    if (format && (format[1] != '0' || end != name + bytes - 1 || *end != 'd'))
        return false;
    if (bytes == 0)
        return fputc('$', to) != EOF;
    if (length == 16 && strncmp(name, "RepresentationID", length) == 0)
        return fputs(of->id, to) != EOF;
    for (size_t i = 0; i < sizeof known / sizeof *known && width >= 0 && width <= 32; i++)
        if (strlen(known[i].name) == length && strncmp(name, known[i].name, length) == 0)
            return fprintf(to, "%0*" PRId64, (int)width, known[i].value) > 0;
    return false;
}

static bool expand(char url[MR_URL_BYTES], const way *of, const segment *one, const char *template) {
    FILE *to = fmemopen(url, MR_URL_BYTES, "w");
    bool good = to != NULL;
    for (const char *at = template; good && *at;) {
        const size_t plain = strcspn(at, "$"), name = at[plain] ? strcspn(at + plain + 1, "$") : 0;
        good = fwrite(at, 1, plain, to) == plain && (!at[plain] || at[plain + 1 + name] == '$') &&
               (!at[plain] || fill_in(to, of, one, at + plain + 1, name));
        at += at[plain] ? plain + name + 2 : plain;
    }
    if (to)
        good &= fclose(to) == 0;
    return good && strlen(url) < MR_URL_BYTES - 1;
}

/* ---- descriptions of segments ------------------------------------------------------------------------------------ */

/* The innermost element of that kind that has that attribute, or that child; NULL: there is none. */
static const xmlNode *described(const way *of, const char *kind, const char *attribute_name, const char *child_name) {
    for (int i = 0; i < 3; i++) {
        const xmlNode *node = child(of->levels[i], kind);
        if (node && (!attribute_name || attribute(node, attribute_name)) && (!child_name || child(node, child_name)))
            return node;
    }
    return NULL;
}

static int64_t described_number(const way *of, const char *kind, const char *name, int64_t otherwise) {
    return number_of(described(of, kind, name, NULL), name, otherwise);
}

static const char *kind_of(const way *of) {
    return described(of, "SegmentTemplate", NULL, NULL) ? "SegmentTemplate"
           : described(of, "SegmentList", NULL, NULL)   ? "SegmentList"
                                                        : "SegmentBase";
}

static int64_t to_ns(const way *of, int64_t time) {
    return av_rescale(time, second_ns, of->scale);
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static int add(manifest *m, const segment *one) {
    if (m->count == MOST_SEGMENTS)
        return mr_fail(MR_ERROR_DATA, "%s: the manifest has more than %d segments", m->params->name, MOST_SEGMENTS);
    if (m->count == m->room) {
        const size_t room = 2 * m->room + 64;
        segment *wider = mr_realloc(m->segments, room * sizeof *wider);
        if (!wider)
            return mr_fail(MR_ERROR_MEMORY, "out of memory");
        m->segments = wider;
        m->room = room;
    }
    m->segments[m->count++] = *one;
    return MR_OK;
}

static int refuse_url(const manifest *m) {
    return mr_fail(MR_ERROR_DATA, "%s: the manifest has a number or a URL that makes no sense", m->params->name);
}

static int refuse_times(const manifest *m) {
    return mr_fail(MR_ERROR_DATA, "%s: the manifest has times that make no sense", m->params->name);
}

static int add_timed(manifest *m, const way *of, int64_t index, int64_t time, int64_t duration, const xmlNode *named) {
    const int64_t from_ns = to_ns(of, time - of->offset), duration_ns = to_ns(of, duration);
    if (from_ns < -MOST_NS || from_ns > MOST_NS || duration_ns < 0 || duration_ns > MOST_NS)
        return refuse_times(m);
    return add(m, &(segment){.named = named, .number = of->first + index, .time = time,
                             .begin_ns = of->begin_ns + from_ns, .duration_ns = duration_ns});
}

/* When the period ends, or has got to by now, in its units. */
static int64_t limit_of(const manifest *m, const way *of) {
    int64_t end_ns = m->live && m->date_ns - m->began_ns < of->end_ns ? m->date_ns - m->began_ns : of->end_ns;
    end_ns = end_ns == INT64_MAX || end_ns < of->begin_ns ? of->begin_ns : end_ns;
    const int64_t units = av_rescale(end_ns - of->begin_ns, of->scale, second_ns);
    return of->offset + (units < MOST_UNITS ? units : MOST_UNITS);
}

/* The URL of a segment of a list, the next one behind each. */
static const xmlNode *next_named(const xmlNode *named) {
    return named ? find(named->next, "SegmentURL") : NULL;
}

/* So many segments of one duration, without those of a live stream that are of no use. */
static int add_run(manifest *m, const way *of, int64_t index, int64_t time, int64_t duration, int64_t count,
                   const xmlNode **named) {
    const int64_t left_out = m->live && !*named && count > LIVE_SEGMENTS ? count - LIVE_SEGMENTS : 0;
    int status = MR_OK;
    for (int64_t i = left_out; i < count && !status; i++) {
        status = add_timed(m, of, index + i, time + i * duration, duration, *named);
        *named = next_named(*named);
    }
    return status;
}

/* How many segments a run of a timeline has; -1: none that makes sense. */
static int64_t count_run(const manifest *m, const way *of, const xmlNode *run, int64_t time, int64_t duration) {
    const xmlNode *next = find(run->next, "S");
    const int64_t repeat = number_of(run, "r", 0);
    if (duration <= 0 || time < 0 || time > MOST_UNITS || duration > MOST_UNITS)
        return -1;
    const int64_t end = attribute(next, "t") ? number_of(next, "t", 0) : limit_of(m, of);
    const int64_t until_end = end > time && end <= MOST_UNITS ? (end - time + duration / 2) / duration : 0;
    const int64_t count = repeat < 0 ? until_end : repeat < MOST_UNITS ? repeat + 1 : MOST_UNITS;
    return count <= (MOST_UNITS - time) / duration ? count : -1;
}

static int add_timeline(manifest *m, const way *of, const xmlNode *timeline, const xmlNode *named) {
    int64_t time = 0, index = 0;
    for (const xmlNode *run = child(timeline, "S"); run; run = find(run->next, "S")) {
        const int64_t duration = number_of(run, "d", 0);
        time = number_of(run, "t", time);
        const int64_t count = count_run(m, of, run, time, duration);
        if (count < 0 || count > MOST_UNITS - index)
            return refuse_times(m);
        int status = add_run(m, of, index, time, duration, count, &named);
        if (status)
            return status;
        time += count * duration;
        index += count;
    }
    return MR_OK;
}

/* Segments of one duration: those of a list, or as many as there are by now. */
static int add_even(manifest *m, const way *of, int64_t duration, const xmlNode *named) {
    const int64_t whole = limit_of(m, of) - of->offset;
    const int64_t kept = m->kept_ns >= 0 ? av_rescale(m->kept_ns, of->scale, second_ns) / duration + 1 : INT64_MAX;
    /* A live list is a part of all that there were: its place is told by the number that it begins with. */
    const int64_t past = named && m->live ? of->first : 0;
    int64_t count = m->live ? whole / duration : whole / duration + (whole % duration > 0), from = 0;
    if (past > MOST_UNITS / duration)
        return refuse_times(m);
    if (named)
        count = 0;
    for (const xmlNode *one = named; one; one = next_named(one))
        count++;
    if (!named && m->live && count > kept)
        from = count - kept;
    return add_run(m, of, from, of->offset + (past + from) * duration, duration, count - from, &named);
}

static int add_segments(manifest *m, const way *of) {
    const char *kind = kind_of(of);
    const xmlNode *timed = described(of, kind, NULL, "SegmentTimeline");
    const xmlNode *named = child(described(of, kind, NULL, "SegmentURL"), "SegmentURL");
    const int64_t duration = described_number(of, kind, "duration", 0);
    if (strcmp(kind, "SegmentBase") == 0 && of->end_ns < of->begin_ns)
        return refuse_times(m);
    if (strcmp(kind, "SegmentBase") == 0)
        return add(m, &(segment){.begin_ns = of->begin_ns,
                                 .duration_ns = of->end_ns == INT64_MAX ? second_ns : of->end_ns - of->begin_ns});
    if (timed)
        return add_timeline(m, of, child(timed, "SegmentTimeline"), named);
    if (duration <= 0 || duration > MOST_UNITS / MOST_SEGMENTS)
        return mr_fail(MR_ERROR_DATA, "%s: the manifest does not say how long segments are", m->params->name);
    return add_even(m, of, duration, named);
}

/* ---- periods, and the video of each ------------------------------------------------------------------------------ */

static bool begins_with(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

static int64_t pixels_of(const xmlNode *set, const xmlNode *video) {
    const int64_t width = number_of(video, "width", number_of(set, "width", 0));
    const int64_t height = number_of(video, "height", number_of(set, "height", 0));
    return width > 0 && height > 0 && width < 1 << 20 && height < 1 << 20 ? width * height : 0;
}

static bool is_video(const xmlNode *set, const xmlNode *video) {
    const char *type = attribute(set, "contentType"), *mime = attribute(video, "mimeType");
    mime = mime ? mime : attribute(set, "mimeType");
    type = type ? type : attribute(child(set, "ContentComponent"), "contentType");
    return type ? strcmp(type, "video") == 0 : mime ? begins_with(mime, "video/") : pixels_of(set, video) > 0;
}

/* Whether a video is to be taken rather than the one before: one that is not too large, then of the higher rate. */
static bool is_better(const manifest *m, const xmlNode *const one[2], const xmlNode *const best[2]) {
    const int64_t most = m->params->max_pixels;
    if (!best[0])
        return true;
    const int64_t pixels = pixels_of(one[1], one[0]), before = pixels_of(best[1], best[0]);
    if ((pixels > most) != (before > most))
        return pixels <= most;
    return number_of(one[0], "bandwidth", 0) > number_of(best[0], "bandwidth", 0);
}

static int choose(const manifest *m, const xmlNode *period, const xmlNode *best[2]) {
    int number = 0;
    for (const xmlNode *set = child(period, "AdaptationSet"); set; set = find(set->next, "AdaptationSet"))
        for (const xmlNode *one = child(set, "Representation"); one; one = find(one->next, "Representation")) {
            const xmlNode *const pair[2] = {one, set};
            const int wanted = m->params->stream;
            if (is_video(set, one) && (wanted < 0 ? is_better(m, pair, best) : number++ == wanted))
                memcpy(best, pair, sizeof pair);
        }
    if (!best[0])
        return mr_fail(MR_ERROR_DATA, "%s: the manifest has no%s video", m->params->name,
                       m->params->stream >= 0 ? " such" : "");
    if (child(best[0], "ContentProtection") || child(best[1], "ContentProtection"))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s: its video is encrypted (ContentProtection)", m->params->name);
    return MR_OK;
}

static bool read_way(const manifest *m, way *of, const xmlNode *period) {
    const char *kind = kind_of(of), *id = attribute(of->levels[0], "id");
    of->id = id ? id : "";
    of->bandwidth = number_of(of->levels[0], "bandwidth", 0);
    of->scale = described_number(of, kind, "timescale", 1);
    of->offset = described_number(of, kind, "presentationTimeOffset", 0);
    of->first = described_number(of, kind, "startNumber", 1);
    snprintf(of->base, sizeof of->base, "%s", m->params->url);
    return of->scale > 0 && of->scale <= second_ns && of->offset >= 0 && of->offset < MOST_UNITS / 2 &&
           of->first >= 0 && of->first < MOST_UNITS / 2 && follow_base(of->base, m->root) &&
           follow_base(of->base, period) &&
           follow_base(of->base, of->levels[1]) && follow_base(of->base, of->levels[0]);
}

/* Begin and end as it says itself, or as those beside it say. `begin_ns`: if nothing says when it begins. */
static void find_times(const manifest *m, way *of, const xmlNode *period, int64_t begin_ns) {
    const int64_t start = duration_of(period, "start"), duration = duration_of(period, "duration");
    const int64_t next = duration_of(find(period->next, "Period"), "start");
    const int64_t whole = duration_of(m->root, "mediaPresentationDuration");
    of->begin_ns = start >= 0 ? start : begin_ns < MOST_NS ? begin_ns : MOST_NS;
    of->end_ns = duration >= 0 ? of->begin_ns + duration : next >= 0 ? next : whole >= 0 ? whole : INT64_MAX;
}

/* Of several periods one is taken: of a recording the longest, of a live stream the last one that has begun. Times of
 * another would begin anew, and its header be another. */
static const xmlNode *choose_period(manifest *m) {
    const xmlNode *chosen = NULL;
    int64_t begin_ns = 0;
    for (const xmlNode *one = child(m->root, "Period"); one; one = find(one->next, "Period")) {
        way of = {0};
        find_times(m, &of, one, begin_ns);
        const bool longer = of.end_ns - of.begin_ns > m->of.end_ns - m->of.begin_ns;
        if (!chosen || (m->live ? of.begin_ns <= m->date_ns - m->began_ns : longer)) {
            chosen = one;
            m->of = of;
        }
        begin_ns = of.end_ns == INT64_MAX ? of.begin_ns : of.end_ns;
    }
    return chosen;
}

static int read_period(manifest *m, const xmlNode *period) {
    const xmlNode *best[2] = {NULL, NULL};
    int status = choose(m, period, best);
    if (status)
        return status;
    m->of.levels[0] = best[0];
    m->of.levels[1] = best[1];
    m->of.levels[2] = period;
    return read_way(m, &m->of, period) ? add_segments(m, &m->of) : refuse_url(m);
}

/* ---- the playlist ------------------------------------------------------------------------------------------------ */

/* With the signs that would end a line, or a URI in quotes, encoded. */
static void print_url(FILE *to, const char *url) {
    for (; *url; url++)
        if ((unsigned char)*url <= ' ' || *url == '"' || *url == 127)
            fprintf(to, "%%%02X", (unsigned char)*url);
        else
            fputc(*url, to);
}

/* The bytes "FIRST-LAST" of a file as HLS has them. */
static void print_range(FILE *to, const char *before, const char *range, const char *after) {
    int64_t first, last;
    if (range && sscanf(range, "%" SCNd64 "-%" SCNd64, &first, &last) == 2 && first >= 0 && last >= first &&
        last < INT64_MAX)
        fprintf(to, "%s%" PRId64 "@%" PRId64 "%s", before, last - first + 1, first, after);
}

static bool locate(char url[MR_URL_BYTES], const way *of, const segment *one, const char *template,
                   const char *reference) {
    char expanded[MR_URL_BYTES] = "";
    snprintf(url, MR_URL_BYTES, "%s", of->base);
    if (template && !expand(expanded, of, one, template))
        return false;
    return template ? follow(url, expanded) : !reference || follow(url, reference);
}

/* The line of the header; none if there is none. */
static bool print_header(FILE *to, const way *of) {
    const char *kind = kind_of(of);
    const char *template = attribute(described(of, kind, "initialization", NULL), "initialization");
    const xmlNode *named = child(described(of, kind, NULL, "Initialization"), "Initialization");
    const segment none = {0};
    char url[MR_URL_BYTES];
    if (strcmp(kind, "SegmentBase") == 0 || (!template && !named))
        return true;
    if (!locate(url, of, &none, template, attribute(named, "sourceURL")))
        return false;
    fputs("#EXT-X-MAP:URI=\"", to);
    print_url(to, url);
    fputc('"', to);
    print_range(to, ",BYTERANGE=\"", attribute(named, "range"), "\"");
    fputc('\n', to);
    return true;
}

static char *header_of(const way *of) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    bool good = to && print_header(to, of);
    if (to)
        good &= fclose(to) == 0;
    char *copy = good ? mr_strdup(text) : NULL;
    free(text);
    return copy;
}

static bool print_segment(FILE *to, const way *of, const segment *one) {
    const char *template = attribute(described(of, "SegmentTemplate", "media", NULL), "media");
    const bool unnamed = strcmp(kind_of(of), "SegmentBase") != 0 && !template && !one->named;
    char url[MR_URL_BYTES];
    if (unnamed || !locate(url, of, one, template, attribute(one->named, "media")))
        return false;
    fprintf(to, "#EXTINF:%.6f,\n", (double)one->duration_ns / 1e9);
    print_range(to, "#EXT-X-BYTERANGE:", attribute(one->named, "mediaRange"), "\n");
    print_url(to, url);
    fputc('\n', to);
    return true;
}

/* Segments that were in the playlist before keep their numbers there. */
static uint64_t number_first(const mr_dash *dash, const segment *first, size_t count) {
    uint64_t known = 0;
    while (known < count && first[known].begin_ns <= dash->last_ns + first[known].duration_ns / 2)
        known++;
    return !dash->begun ? FIRST_NUMBER : known > dash->number ? 0 : dash->number + 1 - known;
}

/* The header is given once: libavformat reads one again, and keeps it, each time that it is named. */
static int find_header(const manifest *m, mr_dash *dash, const char **header) {
    char *now = header_of(&m->of);
    const bool other = now && dash->header && strcmp(now, dash->header) != 0;
    *header = now && !dash->header ? now : "";
    if (now && !dash->header)
        dash->header = now;
    else
        mr_free(now);
    return !now    ? refuse_url(m)
           : other ? mr_fail(MR_ERROR_IO, "%s: the manifest's video has another header now", m->params->name)
                   : MR_OK;
}

static bool print_list(FILE *to, const manifest *m, const char *header, const segment *first, size_t count,
                       uint64_t number) {
    int64_t longest_ns = second_ns;
    bool good = true;
    for (size_t i = 0; i < count; i++)
        longest_ns = first[i].duration_ns > longest_ns ? first[i].duration_ns : longest_ns;
    fprintf(to, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%" PRId64 "\n#EXT-X-MEDIA-SEQUENCE:%" PRIu64 "\n%s",
            (longest_ns + second_ns - 1) / second_ns, number, header);
    for (size_t i = 0; i < count && good; i++)
        good = print_segment(to, &m->of, &first[i]);
    if (!m->live)
        fputs("#EXT-X-ENDLIST\n", to);
    return good;
}

static int print(const manifest *m, mr_dash *dash, char **playlist) {
    const size_t count = m->live && m->count > LIVE_SEGMENTS ? LIVE_SEGMENTS : m->count;
    const segment *first = m->segments + m->count - count;
    const uint64_t number = number_first(dash, first, count);
    const char *header;
    char *text = NULL;
    size_t bytes;
    int status = find_header(m, dash, &header);
    FILE *to = status ? NULL : open_memstream(&text, &bytes);
    if (!to)
        return status ? status : mr_fail(MR_ERROR_MEMORY, "out of memory");
    const bool good = print_list(to, m, header, first, count, number), whole = fclose(to) == 0;
    *playlist = good && whole ? mr_strdup(text) : NULL;
    free(text);
    dash->begun = true;
    dash->last_ns = first[count - 1].begin_ns;
    dash->number = number + count - 1;
    return *playlist ? MR_OK : good ? mr_fail(MR_ERROR_MEMORY, "out of memory") : refuse_url(m);
}

/* ---- manifests --------------------------------------------------------------------------------------------------- */

bool mr_dash_may_be(const uint8_t *text, size_t bytes) {
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};
    size_t at = bytes > sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
    while (at < bytes && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at < bytes && text[at] == '<';
}

static int read_manifest(manifest *m) {
    const char *type = attribute(m->root, "type"), *clock = attribute(child(m->root, "UTCTiming"), "schemeIdUri");
    const int64_t told_ns = date_of(attribute(child(m->root, "UTCTiming"), "value"));
    m->live = type && strcmp(type, "dynamic") == 0;
    m->began_ns = date_of(attribute(m->root, "availabilityStartTime"));
    m->date_ns = clock && strstr(clock, "utc:direct") && told_ns ? told_ns : m->params->date_ns;
    m->kept_ns = duration_of(m->root, "timeShiftBufferDepth");
    const xmlNode *period = choose_period(m);
    int status = period ? read_period(m, period) : MR_OK;
    if (status || m->count)
        return status;
    return m->live ? mr_fail(MR_ERROR_IO, "%s: the manifest has no segment yet", m->params->name)
                   : mr_fail(MR_ERROR_DATA, "%s: the manifest has no segments", m->params->name);
}

/* What libxml2 could only read in minutes, or in hundreds of megabytes, is not a manifest. */
static bool is_moderate(const char *text, size_t bytes) {
    size_t elements = 0, attributes = 0;
    for (size_t i = 0; i < bytes && elements <= MOST_ELEMENTS && attributes <= MOST_ATTRIBUTES; i++) {
        elements += text[i] == '<';
        attributes = text[i] == '<' ? 0 : attributes + (text[i] == '=');
    }
    return bytes <= MR_DASH_MOST_BYTES && elements <= MOST_ELEMENTS && attributes <= MOST_ATTRIBUTES;
}

/* As UTF-8, whatever it says itself: in other encodings the signs that are counted could be others. Entities stay as
 * they are. */
static xmlDoc *parse(const char *text, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int how = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING;
    pthread_once(&once, xmlInitParser);
    return is_moderate(text, bytes) ? xmlReadMemory(text, (int)bytes, NULL, "UTF-8", how) : NULL;
}

int mr_dash_to_hls(mr_dash *dash, const mr_dash_params *params, const char *text, size_t bytes, char **playlist) {
    xmlDoc *document = parse(text, bytes);
    manifest m = {.params = params, .root = document ? xmlDocGetRootElement(document) : NULL};
    int status = MR_OK;
    *playlist = NULL;
    if (m.root && is_named(m.root, "MPD"))
        status = read_manifest(&m);
    if (!status && m.count)
        status = print(&m, dash, playlist);
    mr_free(m.segments);
    xmlFreeDoc(document);
    return status;
}

void mr_dash_fini(mr_dash *dash) {
    mr_free(dash->header);
    *dash = (mr_dash){0};
}
