#include "tools/millrace/ctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/table.h"

/* xterm's private mode 1049 (alternate screen) and DECTCEM (cursor). */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
/* ECMA-48: cursor home, erase in line, erase in page. */
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
enum { DEFAULT_LINES = 24, MOST_LINES = 1000 };

static struct {
    struct termios before;
    bool has_keys;
    volatile sig_atomic_t ended;
} screen;

static void end_by_signal(int number) {
    screen.ended = 1;
}

/* The handler only ends the wait. */
static void resized(int number) {
}

/* They restart what they interrupt: a write to the terminal that a signal ends would count as failed. */
static void take_signals(void) {
    struct sigaction end = {.sa_handler = end_by_signal, .sa_flags = SA_RESTART};
    struct sigaction size = {.sa_handler = resized, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    sigaction(SIGWINCH, &size, NULL);
}

bool mr_screen_begin(void) {
    const char *kind = getenv("TERM");
    struct termios raw;
    if (!isatty(STDOUT_FILENO) || !kind || !*kind || strcmp(kind, "dumb") == 0)
        return false;
    screen.has_keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen.before);
    take_signals();
    if (screen.has_keys) {
        raw = screen.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs(ENTER, stdout);
    fflush(stdout);
    return true;
}

void mr_screen_end(void) {
    fputs(LEAVE, stdout);
    fflush(stdout);
    if (screen.has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

int mr_screen_lines(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 && size.ws_row < MOST_LINES)
        return size.ws_row;
    return DEFAULT_LINES;
}

/* The lines are ours: names in them were escaped when they were printed. */
static void put_line(const char *line, size_t length, int width, bool last) {
    fwrite(line, 1, mr_columns_fit(line, length, (size_t)width), stdout);
    fputs(last ? CLEAR_LINE : CLEAR_LINE "\r\n", stdout);
}

int mr_screen_show(const char *text, int fixed, int first) {
    const int room = mr_screen_lines(), width = mr_terminal_width(stdout);
    int line = 0, shown = 0;
    fputs(HOME, stdout);
    for (const char *at = text; *at; line++) {
        const size_t length = strcspn(at, "\n");
        if (shown < room && (line < fixed || line >= fixed + first))
            put_line(at, length, width, ++shown == room);
        at += length + (at[length] == '\n');
    }
    if (shown < room)
        fputs(CLEAR_REST, stdout);
    fflush(stdout);
    return line > room ? line - room : 0;
}

static mr_screen_key key_of(const char *bytes, ssize_t count) {
    static const struct {
        const char *bytes;
        mr_screen_key key;
    } keys[] = {{"q", MR_KEY_QUIT},      {"Q", MR_KEY_QUIT},        {"k", MR_KEY_UP},          {"\033[A", MR_KEY_UP},
                {"\033OA", MR_KEY_UP},   {"j", MR_KEY_DOWN},        {"\033[B", MR_KEY_DOWN},   {"\033OB", MR_KEY_DOWN},
                {"\033[5~", MR_KEY_PAGE_UP}, {"\033[6~", MR_KEY_PAGE_DOWN}, {"g", MR_KEY_TOP}, {"\033[H", MR_KEY_TOP},
                {"p", MR_KEY_PAUSE},     {" ", MR_KEY_PAUSE}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if ((size_t)count == strlen(keys[i].bytes) && memcmp(bytes, keys[i].bytes, (size_t)count) == 0)
            return keys[i].key;
    return MR_KEY_NONE;
}

/* As poll, but a signal that comes after the look at `screen.ended` ends it too. */
static int wait_for_key(struct pollfd *input, int timeout_ms) {
    const struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    const int ready = screen.ended ? 0 : ppoll(input, 1, timeout_ms < 0 ? NULL : &timeout, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready;
}

bool mr_screen_ended(void) {
    return screen.ended;
}

mr_screen_key mr_screen_wait(int timeout_ms) {
    struct pollfd input = {.fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    char bytes[16];
    int ready = wait_for_key(&input, timeout_ms);
    if (screen.ended)
        return MR_KEY_QUIT;
    if (ready <= 0)
        return MR_KEY_NONE;
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count <= 0) /* the terminal is gone */
        return MR_KEY_QUIT;
    return key_of(bytes, count);
}
