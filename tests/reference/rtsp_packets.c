/* Reads an RTSP stream for rtsp.py. Prints a line for each packet and each decoded picture.
 *
 *     rtsp_packets URL [key=value...]
 *
 * Keys: user, password, transport (auto, tcp, udp), latency (ms), timeout (ms, to open), ca, hosts, most (bytes in a
 * packet), packets and seconds (limits for reading), decode (0, 1), quiet (0, 1: print no packets), survey (0, 1), stop
 * (ms from the start until the stream is cancelled), before (number of connections to open first, three packets each).
 * Lines:
 *
 *     before DESCRIPTORS THREADS KIB                        (after a tenth of these connections, and after all)
 *     survey CODEC WIDTHxHEIGHT RATE REFERENCES MS          (MS: from the start until the survey was complete)
 *     packet PTS FLAGS BYTES CAPTURED ARRIVED WIDTHxHEIGHT MD5
 *     picture PTS TAINTED WIDTHxHEIGHT MD5
 *     counts PACKETS BYTES LOST LATE JITTER_NS TRANSPORT
 *     end STATUS MS CPU_MS MESSAGE                          (MS: for the last call; CPU_MS: since the start)
 *
 * A picture is tainted if the packet is, by the rules of a live source (stages/media/coded/recovery.h). One decoder
 * reads all packets, so untainted pictures can be wrong after a loss (stages/decode/damage.h). */
#include <dirent.h>
#include <inttypes.h>
#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "millrace/frame.h"
#include "millrace/status.h"
#include "stages/live/connection/address.h"
#include "stages/live/rtsp/rtsp.h"
#include "stages/media/coded/recovery.h"

typedef struct reading {
    mr_connection_params params;
    int64_t most_packets, most_ns, stop_ns, before;
    bool decode, survey, quiet;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    mr_recovery recovery;
    bool tainted;
} reading;

static const char *value_of(int count, char **arguments, const char *key, const char *otherwise) {
    const size_t bytes = strlen(key);
    for (int i = 2; i < count; i++)
        if (strncmp(arguments[i], key, bytes) == 0 && arguments[i][bytes] == '=')
            return arguments[i] + bytes + 1;
    return otherwise;
}

static int64_t number_of(int count, char **arguments, const char *key, int64_t otherwise) {
    const char *text = value_of(count, arguments, key, NULL);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static const char *md5(const uint8_t *data, size_t bytes) {
    static char hex[33];
    uint8_t sum[16];
    av_md5_sum(sum, data, bytes);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    return hex;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static void print_picture(const reading *at) {
    const AVFrame *frame = at->frame;
    const int bytes = av_image_get_buffer_size(frame->format, frame->width, frame->height, 1);
    uint8_t *whole = malloc((size_t)bytes);
    if (!whole)
        abort();
    av_image_copy_to_buffer(whole, bytes, (const uint8_t *const *)frame->data, frame->linesize, frame->format,
                            frame->width, frame->height, 1);
    /* The decoder passes this value on from the packet: whether the packet was tainted. */
    printf("picture %" PRId64 " %d %dx%d %s\n", frame->pts, (int)frame->reordered_opaque, frame->width, frame->height,
           md5(whole, (size_t)bytes));
    free(whole);
}

static void print_pictures(const reading *at) {
    while (avcodec_receive_frame(at->decoder, at->frame) >= 0)
        print_picture(at);
}

static void open_decoder(reading *at, const mr_media *media) {
    const AVCodecParameters *codec = media->codec;
    at->decoder = avcodec_alloc_context3(avcodec_find_decoder(codec->codec_id));
    avcodec_parameters_to_context(at->decoder, codec);
    at->decoder->thread_count = 1;
    if (avcodec_open2(at->decoder, NULL, NULL) < 0)
        abort();
}

static void decode(reading *at, const mr_packet *packet) {
    if (!at->decoder)
        open_decoder(at, packet->media);
    at->packet->data = packet->data;
    at->packet->size = (int)packet->bytes;
    at->packet->pts = packet->pts_ns;
    at->decoder->reordered_opaque = at->tainted;
    avcodec_send_packet(at->decoder, at->packet);
    print_pictures(at);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void print_packet(reading *at, const mr_packet *packet) {
    const AVCodecParameters *codec = packet->media->codec;
    at->tainted = mr_recovery_pass(&at->recovery, packet);
    printf("packet %" PRId64 " %u %zu %" PRId64 " %" PRId64 " %dx%d %s\n", packet->pts_ns, packet->flags, packet->bytes,
           packet->captured_ns, packet->arrived_ns, codec->width, codec->height, md5(packet->data, packet->bytes));
    for (int i = 0; i < 64; i++)
        if (packet->data[packet->bytes + (size_t)i])
            abort();
    if (at->decode)
        decode(at, packet);
}

static int read_all(reading *at, mr_connection *connection, int64_t begun_ns) {
    int64_t left = at->most_packets;
    int status = MR_OK;
    while (left > 0 && !status) {
        mr_packet packet;
        status = connection->type->read(connection, begun_ns + at->most_ns, &packet);
        if (status)
            break;
        if (!at->quiet)
            print_packet(at, &packet);
        mr_buffer_unref(&packet.buffer);
        mr_media_unref(&packet.media);
        left--;
    }
    if (at->decoder) {
        avcodec_send_packet(at->decoder, NULL);
        print_pictures(at);
    }
    return status;
}

static int survey(mr_connection *connection, int64_t begun_ns) {
    mr_survey found;
    const int status = connection->type->survey(connection, &found);
    if (!status)
        printf("survey %s %" PRId64 "x%" PRId64 " %.3f %d %" PRId64 "\n", found.set.codec, (int64_t)found.set.width.min,
               (int64_t)found.set.height.min, found.rate, found.references, (mr_now_ns() - begun_ns) / 1000000);
    return status;
}

static int entries_of(const char *folder) {
    int count = -2; /* "." and ".." */
    DIR *opened = opendir(folder);
    if (!opened)
        abort();
    while (readdir(opened))
        count++;
    closedir(opened);
    return count;
}

static void print_use(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        abort();
    fclose(file);
    printf("before %d %d %ld\n", entries_of("/proc/self/fd") - 1, entries_of("/proc/self/task"),
           pages * sysconf(_SC_PAGESIZE) / 1024);
}

/* Opens and closes connections, as many as `before` asks for. */
static int come_and_go(const reading *at) {
    int status = MR_OK;
    for (int64_t i = 0; i < at->before && !status; i++) {
        mr_connection *connection = NULL;
        status = mr_connection_open_rtsp(&connection, &at->params);
        for (int k = 0; k < 3 && !status; k++) {
            mr_packet packet;
            status = connection->type->read(connection, INT64_MAX, &packet);
            if (!status) {
                mr_buffer_unref(&packet.buffer);
                mr_media_unref(&packet.media);
            }
        }
        if (connection)
            connection->type->close(connection);
        if (i + 1 == at->before / 10 || i + 1 == at->before)
            print_use();
    }
    return status;
}

/* Cancels the reader after a while, as a stopping pipeline would. */
static void *stop(void *context) {
    const reading *at = context;
    const uint64_t one = 1;
    usleep((useconds_t)(at->stop_ns / 1000));
    if (write(at->params.wake, &one, sizeof one) < 0)
        abort();
    return NULL;
}

static void read_arguments(reading *at, int count, char **arguments) {
    const char *transport = value_of(count, arguments, "transport", "auto");
    at->params = (mr_connection_params){
        .url = arguments[1], .user = value_of(count, arguments, "user", NULL),
        .password = value_of(count, arguments, "password", NULL),
        .transport = strcmp(transport, "tcp") == 0   ? MR_TRANSPORT_TCP
                     : strcmp(transport, "udp") == 0 ? MR_TRANSPORT_UDP
                                                     : MR_TRANSPORT_AUTO,
        .latency_ns = number_of(count, arguments, "latency", 200) * 1000000,
        .open_timeout_ns = number_of(count, arguments, "timeout", 10000) * 1000000,
        .ca_file = value_of(count, arguments, "ca", NULL), .allow_hosts = value_of(count, arguments, "hosts", NULL),
        .most_bytes = (size_t)number_of(count, arguments, "most", 8 << 20), .wake = eventfd(0, EFD_NONBLOCK),
        .media = {.uri = arguments[1], .max_pixels = 1 << 26}};
    at->params.digest_only = number_of(count, arguments, "digest", 0);
    at->most_packets = number_of(count, arguments, "packets", INT64_MAX);
    at->most_ns = number_of(count, arguments, "seconds", 3600) * 1000000000;
    at->stop_ns = number_of(count, arguments, "stop", 0) * 1000000;
    at->decode = number_of(count, arguments, "decode", 0);
    at->before = number_of(count, arguments, "before", 0);
    at->quiet = number_of(count, arguments, "quiet", 0);
    at->survey = number_of(count, arguments, "survey", 0);
}

int main(int count, char **arguments) {
    reading at = {0};
    mr_connection *connection = NULL;
    mr_connection_counts counts;
    pthread_t stopper;
    if (count < 2)
        return 64;
    read_arguments(&at, count, arguments);
    at.packet = av_packet_alloc();
    at.frame = av_frame_alloc();
    mr_recovery_begin(&at.recovery);
    if (at.stop_ns && pthread_create(&stopper, NULL, stop, &at))
        abort();
    int status = come_and_go(&at);
    const int64_t begun_ns = mr_now_ns();
    int64_t opened_ns = begun_ns;
    double cpu_s = 0;
    if (!status)
        status = mr_connection_open_rtsp(&connection, &at.params);
    if (!status && at.survey)
        status = survey(connection, begun_ns);
    if (!status) {
        cpu_s = mr_process_cpu_s();
        opened_ns = mr_now_ns();
        status = read_all(&at, connection, opened_ns);
        connection->type->count(connection, &counts);
        printf("counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.0f %d\n", counts.packets, counts.bytes,
               counts.lost, counts.late, counts.jitter_ns, counts.transport);
        cpu_s = mr_process_cpu_s() - cpu_s;
    }
    printf("end %d %" PRId64 " %.3f %s\n", status, (mr_now_ns() - opened_ns) / 1000000, cpu_s * 1000,
           status < 0 ? mr_message() : "");
    if (connection)
        connection->type->close(connection);
    if (at.stop_ns)
        pthread_join(stopper, NULL);
    avcodec_free_context(&at.decoder);
    av_packet_free(&at.packet);
    av_frame_free(&at.frame);
    close(at.params.wake);
    return 0;
}
