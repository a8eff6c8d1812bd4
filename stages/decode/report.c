#include "stages/decode/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "stages/decode/decode_options.h"
#include "stages/media/media_input.h"

void mr_decode_report_init(mr_decode_report *report, const mr_stage *self) {
    *report = (mr_decode_report){.self = self, .live_pixels = mr_decode_live_pixels(self)};
}

void mr_decode_report_note(mr_decode_report *report, mr_decode_event event) {
    report->packets += event == MR_DECODE_PACKET;
    report->left += event == MR_DECODE_LEFT;
    report->pictures += event == MR_DECODE_PICTURE;
    report->came |= event >= MR_DECODE_PICTURE;
    report->outsized = report->outsized && event < MR_DECODE_DECODER;
}

void mr_decode_report_error(mr_decode_report *report, int error) {
    report->last_error = error;
}

void mr_decode_report_scale(mr_decode_report *report, int scale) {
    report->scaled[scale]++;
}

bool mr_decode_report_is_empty(const mr_decode_report *report) {
    return !report->came;
}

void mr_decode_report_fini(mr_decode_report *report) {
    mr_media_unref(&report->lost);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bool mr_decode_report_outsized(mr_decode_report *report, const mr_media *media, int width, int height) {
    const mr_stage *self = report->self;
    const bool limited = media->live && report->live_pixels < ((const mr_decode_choices *)self->options)->max_pixels;
    if (!limited || (int64_t)width * height <= report->live_pixels)
        return false;
    if (!report->outsized)
        mr_stage_warn(self, "%s: pictures are %dx%d, larger than planned for, and are dropped: raise size of %s",
                      self->source_id, width, height, self->source_id);
    report->outsized = true;
    return true;
}

/* ---- packets without a picture ----------------------------------------------------------------------------------- */

/* One damaged picture in a video can spoil all up to the next key frame. */
static const char *consequence(const mr_decode_choices *from) {
    return from->damaged == MR_DAMAGED_DROP
               ? "; those that depend on it are dropped, too (damaged: mark would pass them on)"
               : "";
}

typedef void message(const mr_stage *, const char *, ...);

/* The first message in a source is a warning. */
static message *next_message(mr_decode_report *report) {
    message *next = report->damaged ? mr_stage_info : mr_stage_warn;
    report->damaged = true;
    return next;
}

/* Why the packet is dropped, if that is its size; NULL: it is not. */
static const char *explain_by_size(mr_decode_report *report, const mr_media *media, const char *name) {
    const mr_stage *self = report->self;
    const mr_decode_choices *from = self->options;
    int width, height, end = 0;
    const bool exceeds =
        sscanf(mr_av_complaint(), "Picture size %dx%d exceeds%n", &width, &height, &end) == 2 && end > 0;
    /* After a decoder has refused one, packets that depend on it give no picture either. */
    if ((exceeds && media && mr_decode_report_outsized(report, media, width, height)) || report->outsized)
        return "too large";
    if (!exceeds)
        return NULL;
    /* A picture that FFmpeg refuses as too large is not damaged: a larger max_pixels admits it. */
    next_message(report)(self, "%s: %s is %dx%d, larger than max_pixels (%lld) allows: raise max_pixels of %s",
                         self->source_id, name, width, height, (long long)from->max_pixels, self->id);
    return "corrupt";
}

const char *mr_decode_report_damaged(mr_decode_report *report, const mr_frame *packet) {
    const mr_stage *self = report->self;
    const char *reason = explain_by_size(report, packet->media, "a picture");
    if (reason)
        return reason;
    if (packet->pts_ns != MR_NO_TIME)
        next_message(report)(self, "%s: the picture at %.3f s is damaged%s", self->source_id,
                             (double)packet->pts_ns / 1e9, consequence(self->options));
    else
        next_message(report)(self, "%s: a picture is damaged%s", self->source_id, consequence(self->options));
    return "corrupt";
}

const char *mr_decode_report_damaged_file(mr_decode_report *report, mr_media *media, const char *file,
                                          const char *trouble) {
    const mr_stage *self = report->self;
    const char *reason = explain_by_size(report, media, file);
    if (report->outsized)
        return reason;
    if (!reason)
        next_message(report)(self, "%s: %s %s", self->source_id, file, trouble ? trouble : "is damaged");
    mr_media_unref(&report->lost);
    report->lost = mr_media_ref(media);
    snprintf(report->trouble, sizeof report->trouble, "%s", trouble ? trouble : "");
    return trouble ? "not a picture that is read" : "corrupt";
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* If a folder has many files, the message names one. */
static int fail_undecoded(const mr_decode_report *report) {
    const char *why = report->outsized     ? "its pictures are larger than planned for"
                      : report->last_error ? mr_av_words(report->last_error)
                                           : "no picture was complete";
    if (!report->lost)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded: %s", why);
    if (report->packets == 1 && *report->trouble)
        return mr_fail(MR_ERROR_DATA, "%s %s", report->lost->path, report->trouble);
    if (report->packets == 1)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %s: %s", report->lost->path, why);
    return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %" PRIu64 " files, such as %s: %s", report->packets,
                   report->lost->path, why);
}

int mr_decode_report_end(const mr_decode_report *report) {
    const mr_stage *self = report->self;
    if (report->left > 0)
        mr_stage_info(self, "%s: %" PRIu64 " pictures were not decoded, since neither they nor what depends on them is "
                      "wanted", self->source_id, report->left);
    if (report->scaled[2] + report->scaled[3] > 0)
        mr_stage_info(self, "%s: %" PRIu64 " pictures were decoded at 1/8 of their size, %" PRIu64 " at 1/4, %" PRIu64
                      " whole", self->source_id, report->scaled[3], report->scaled[2], report->scaled[0]);
    return report->packets > 0 && report->pictures == 0 ? fail_undecoded(report) : MR_OK;
}
