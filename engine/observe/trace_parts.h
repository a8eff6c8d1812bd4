/* Shared by the files of the trace: trace.c records events into rings, trace_write.c writes them to the file. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <yajl/yajl_gen.h>

#include "engine/observe/trace.h"

typedef enum mr_trace_kind { MR_TRACE_SPAN, MR_TRACE_INSTANT, MR_TRACE_VALUE, MR_TRACE_ARROW } mr_trace_kind;

typedef struct mr_trace_event {
    mr_trace_kind kind;
    mr_trace_step step; /* ARROW */
    mr_track *track;
    const char *name;
    int64_t at_ns;
    int64_t more; /* SPAN: when it ends; VALUE: the value */
    mr_trace_about about;
} mr_trace_event;

typedef struct mr_trace_group {
    char *name;
    int number;
    bool reported; /* the writer's: the file has the name */
    struct mr_trace_group *next;
} mr_trace_group;

struct mr_track {
    char *name;
    int number;
    bool reported;
    mr_trace_group *group;
    mr_track *next;
};

/* Written by one thread and read by one: `written` is the one's, `read` the other's. */
typedef struct mr_trace_ring {
    pthread_t thread;
    struct mr_trace_ring *next;
    uint64_t room; /* a power of two */
    _Atomic uint64_t written, read, lost;
    mr_trace_event events[];
} mr_trace_ring;

/* The file. One thread at a time. */
typedef struct mr_trace_file {
    const char *path;
    int fd; /* -1: closed */
    bool regular;
    int64_t end;  /* after the last event */
    bool some;    /* there is an event in it */
    int status;   /* the first failed write's */
    char message[512];
    yajl_gen json;
} mr_trace_file;

struct mr_trace {
    uint64_t serial; /* differs from every other trace's in this process, so that threads can find their rings */
    const mr_clock *clock;
    int64_t origin_ns;
    bool lossy, writing;
    _Atomic bool finished; /* the writer has ended */
    pthread_t writer;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    bool ending;
    int ring_count, track_count;
    mr_trace_ring *rings;
    mr_trace_group *groups;
    mr_track *tracks;
    _Atomic uint64_t lost; /* by threads without a ring */
    mr_trace_file file;    /* the writer's */
};

/* trace_write.c */
int mr_trace_file_open(mr_trace_file *file, const char *path);
/* Adds an event to the text that is written next. Its track's and group's first event also adds their names. True: much
 * is waiting and should be written. */
bool mr_trace_file_add(mr_trace_file *file, const mr_trace_event *event, int64_t origin_ns);
/* Writes the text, and how many events were lost; `last`: and closes the file. */
void mr_trace_file_flush(mr_trace_file *file, uint64_t lost, bool last);
void mr_trace_file_close(mr_trace_file *file);
