/* millrace hub: one page and one API over many runs on many machines. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "engine/base/units.h"
#include "engine/serve/http_address.h"
#include "millrace/audit.h"
#include "millrace/channel.h"
#include "millrace/log.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/hub/hub_http.h"

/* The hub's thread sleeps at most LOOK_NS, and event streams get something every EVENT_NS. */
static const int64_t LOOK_NS = 250000000, EVENT_NS = 1000000000;
/* The range of --lost and --keep. */
static const int64_t LEAST_NS = 1000000000, MOST_NS = 86400000000000 * 365;
/* Messages that are taken before others get the lock. */
enum { MOST_AT_ONCE = 256, SPARE_PEERS = 64 };

/* ---- the command line -------------------------------------------------------------------------------------------- */

typedef struct arguments {
    const char *listen, *key, *allow;
    mr_view_http http;
    mr_words hosts;
    int64_t lost_ns, keep_ns;
    int most;
    const char *audit;
    int log;
} arguments;

static int take_duration(int64_t *to, const char *text) {
    if (mr_units_read(text, mr_units_duration, to) && *to >= LEAST_NS && *to <= MOST_NS)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "takes a duration from 1s to 365 days (8760h), such as 30s, not \"%s\"", text);
}

static int take_lost(void *to, char *text) {
    return take_duration(&((arguments *)to)->lost_ns, text);
}

static int take_keep(void *to, char *text) {
    return take_duration(&((arguments *)to)->keep_ns, text);
}

static const mr_usage_option options[] = {
    MR_OPTION("listen", "ENDPOINT", arguments, listen,
              "where runs report: tcp://HOST:PORT or ipc://FOLDER/NAME, by default tcp://127.0.0.1:9200. Port * is any "
              "free one. Any address that other machines reach needs --key and --allow"),
    MR_OPTION("key", "FILE", arguments, key, "the hub's key pair, made by `millrace keygen`"),
    MR_OPTION("allow", "FILE", arguments, allow, "the public keys of the runs that may report, one per line"),
    MR_OPTION("http", "ADDRESS", arguments, http.listen,
              "where the page and the API are: 127.0.0.1:PORT, [::1]:PORT or unix:PATH, by default 127.0.0.1:9201. "
              "Port 0 is any free one, which is printed. Any address that other machines reach needs --token, "
              "--certificate and --certificate-key"),
    MR_OPTION("token", "FILE", arguments, http.token_file,
              "a file with the token that requests must give, which only its owner may read"),
    MR_OPTION("certificate", "FILE", arguments, http.certificate, "the certificate for TLS, as PEM"),
    MR_OPTION("certificate-key", "FILE", arguments, http.key,
              "the certificate's secret key, as PEM, which only its owner may read"),
    MR_OPTION("host", "NAME", arguments, hosts,
              "a name by which clients may ask for the page; without one any name if there is a token, and else only "
              "this machine's loopback names"),
    MR_OPTION_CALL("lost", "DURATION", take_lost,
                   "a run is lost once it has not reported for this long, by default 10s. Runs report every two "
                   "seconds"),
    MR_OPTION_CALL("keep", "DURATION", take_keep,
                   "how long runs are shown after they have ended or were lost, by default 1h"),
    MR_OPTION_NUMBER("most", "N", arguments, most, 1, 100000,
                     "how many runs are known at once, by default 4096. A new one replaces the one that ended first; "
                     "if all run, it is not shown, and counted"),
    MR_OPTION("audit", "FILE", arguments, audit,
              "appends accepted and refused connections to a log, as lines of JSON"),
    MR_OPTION("log", "error|warning|info|debug", arguments, log, "how much is logged; warning is the default",
              .take = mr_usage_take_level),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "", "--listen tcp://0.0.0.0:9200 --key hub.key --allow runs.allow", NULL};

static const mr_usage usage = {
    .verb = "hub",
    .synopsis = "",
    .help = "Shows many runs on many machines on one page: by host, pipeline and device, with state, rates, sources "
            "and losses, and a link to each run's own page. Runs report to it if they name it: `run --hub "
            "tcp://HOST:PORT`, or `hub` in the pipeline. The hub changes nothing: it starts and ends no run.",
    .options = options,
    .notes = "A hub that starts again knows all runs within a few seconds. No run waits for it. It ends with SIGINT or "
             "SIGTERM. At SIGHUP it reads the file of --allow again, and opens the file of --audit anew.",
    .examples = examples,
};

static int check_http(const arguments *given) {
    static const char *const names[] = {"listen", "http", "key", "certificate-key", "certificate", "certificate"};
    const mr_view_http *http = &given->http;
    const char *wrong, *name = NULL;
    mr_http_address address;
    if (!mr_http_address_check(http->listen, http->token_file, http->certificate, http->key, &wrong))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2)
        if (strcmp(names[i], wrong) == 0)
            name = names[i + 1];
    return mr_usage_error(&usage, "--%s: %s%s", name, mr_message(),
                          strcmp(wrong, "listen") == 0 && mr_http_address_parse(http->listen, &address) == MR_OK
                              ? ": add --token, --certificate and --certificate-key, or use 127.0.0.1" : "");
}

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code))
        return false;
    to->http.hosts = (mr_strings){.item = to->hosts.item, .count = to->hosts.count};
    *code = check_http(to);
    return !*code;
}

/* ---- the hub ----------------------------------------------------------------------------------------------------- */

typedef struct hub {
    mr_hub_shown shown;
    mr_hub_http *http;
    mr_channel *channel;
    int64_t warned_ns; /* about a message; 0: never */
    int64_t looked_ns; /* for lost runs */
} hub;

/* At most one line a minute: a program with a key could send any number. */
static void note(hub *of, mr_hub_fate fate, int64_t now_ns) {
    const int64_t every_ns = 60000000000;
    if ((fate != MR_HUB_MALFORMED && fate != MR_HUB_FULL) || (of->warned_ns && now_ns - of->warned_ns < every_ns))
        return;
    of->warned_ns = now_ns;
    if (fate == MR_HUB_FULL)
        mr_log(MR_LOG_WARNING, "more than %zu runs report, so some are not shown (--most)", of->shown.registry.most);
    else
        mr_log(MR_LOG_WARNING, "a message was ignored: %s", mr_message());
}

/* Waits for messages, and takes them. */
static int take_messages(hub *of) {
    const void *data;
    size_t bytes;
    int status = mr_channel_receive(of->channel, &data, &bytes, LOOK_NS);
    mr_hub_http_hold(of->http);
    for (int i = 1; !status; i++) {
        const int64_t now_ns = mr_now_ns();
        note(of, mr_hub_registry_take(&of->shown.registry, data, bytes, now_ns), now_ns);
        status = i < MOST_AT_ONCE ? mr_channel_receive(of->channel, &data, &bytes, 0) : MR_ERROR_AGAIN;
    }
    if (mr_now_ns() - of->looked_ns >= LOOK_NS) {
        of->looked_ns = mr_now_ns();
        mr_hub_registry_look(&of->shown.registry, of->looked_ns);
    }
    of->shown.peers = (uint64_t)mr_channel_peers(of->channel);
    of->shown.refused = mr_channel_refused(of->channel);
    mr_hub_http_release(of->http);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

/* At SIGHUP. If a file cannot be read, the hub logs it and continues with what it had. */
static void open_again(hub *of, const arguments *given) {
    if (given->allow && mr_channel_allow(of->channel, given->allow))
        mr_log(MR_LOG_ERROR, "%s; the hub continues with the keys that it had", mr_message());
    if (given->audit && mr_audit_reopen())
        mr_log(MR_LOG_ERROR, "%s", mr_message());
}

static bool is_asked_to_end(hub *of, const arguments *given, int signals) {
    struct signalfd_siginfo got;
    while (read(signals, &got, sizeof got) == (ssize_t)sizeof got) {
        if (got.ssi_signo != SIGHUP)
            return true;
        open_again(of, given);
    }
    return false;
}

static int watch(hub *of, const arguments *given, int signals) {
    int64_t woken_ns = 0;
    int status = MR_OK;
    while (!status && !is_asked_to_end(of, given, signals)) {
        status = take_messages(of);
        if (mr_now_ns() - woken_ns < EVENT_NS)
            continue;
        woken_ns = mr_now_ns();
        mr_hub_http_wake(of->http);
    }
    return status;
}

/* The endpoint as it was given, with the port that the system has chosen; and the page. */
static void report(const hub *of, const arguments *given) {
    const char *endpoint = given->listen, *page = mr_hub_http_page(of->http);
    const int host = strncmp(endpoint, "tcp://", 6) == 0 ? (int)(strrchr(endpoint, ':') - endpoint) : 0;
    mr_print(stderr, "millrace: hub listens at %.*s%s and shows its page at %s\n", host, endpoint,
             host ? strrchr(mr_channel_endpoint(of->channel), ':') : endpoint, *page ? page : given->http.listen);
}

static int serve(const arguments *given, int signals) {
    hub of = {.shown = {.registry = {.most = (size_t)given->most, .lost_ns = given->lost_ns,
                                     .keep_ns = given->keep_ns}, .began_ns = mr_now_ns()}};
    char host[MR_HUB_NAME] = "";
    gethostname(host, sizeof host - 1);
    mr_print_into(of.shown.host, sizeof of.shown.host, "%s", host);
    int status = mr_channel_listen(&of.channel, given->listen, given->key, given->allow, MR_HUB_MESSAGE,
                                   given->most + SPARE_PEERS);
    if (!status)
        status = mr_hub_http_open(&of.http, &given->http, &of.shown);
    if (!status) {
        report(&of, given);
        status = watch(&of, given, signals);
    }
    mr_hub_http_close(&of.http);
    mr_channel_close(&of.channel, 0);
    mr_hub_registry_fini(&of.shown.registry);
    return status ? mr_command_failed(status) : 0;
}

/* Blocks the signals that the hub takes, before any thread starts, and returns a descriptor for them. */
static int catch_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_hub(const arguments *given) {
    const int signals = catch_signals();
    int status = signals < 0 ? mr_fail(MR_ERROR_INTERNAL, "cannot wait for signals") : MR_OK;
    if (!status && given->audit)
        status = mr_audit_open(given->audit);
    const int code = status ? mr_command_failed(status) : serve(given, signals);
    mr_audit_close();
    if (signals >= 0)
        close(signals);
    return code;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.listen = "tcp://127.0.0.1:9200", .http = {.listen = "127.0.0.1:9201"},
                       .lost_ns = 10000000000, .keep_ns = 3600000000000, .most = 4096};
    int code = 0;
    if (parse(&given, argc, argv, &code))
        code = run_hub(&given);
    mr_words_fini(&given.hosts);
    return code;
}

const mr_verb mr_hub_verb = {&usage, "show many runs on many machines", run_verb};
