#include "tools/millrace/run/launch.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/millrace/cli/command.h"

/* Reads a number from the environment. Leaves it unchanged if the variable is not set. */
static int take_number(const char *variable, int *number) {
    const char *said = getenv(variable);
    long long value;
    if (!said)
        return MR_OK;
    if (!mr_parse_integer(said, 0, MR_LAUNCH_MOST, &value))
        return mr_fail(MR_ERROR_USAGE, "%s is \"%s\" in the environment, not a number from 0 to %d: unset it, or set "
                                       "it to the number of this process", variable, said, MR_LAUNCH_MOST);
    *number = (int)value;
    return MR_OK;
}

static const char *either(const char *variable, const char *other) {
    const char *said = getenv(variable);
    return said ? said : getenv(other);
}

static int add_host(mr_launch *launch, const char *prefix, size_t prefix_length, const char *text, size_t length) {
    if (launch->host_count == MR_LAUNCH_MOST)
        return mr_fail(MR_ERROR_USAGE, "more than %d processes", MR_LAUNCH_MOST);
    char **hosts = realloc(launch->hosts, (launch->host_count + 1) * sizeof *hosts), *host = NULL;
    if (hosts)
        launch->hosts = hosts;
    if (!hosts || asprintf(&host, "%.*s%.*s", (int)prefix_length, prefix, (int)length, text) < 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the names of hosts");
    launch->hosts[launch->host_count++] = host;
    return MR_OK;
}

/* ---- Slurm ----------------------------------------------------------------------------------------------------- */

/* "1-3" or "07-12" in "node[1-3,07-12]". */
static int add_range(mr_launch *launch, const char *prefix, size_t prefix_length, const char *range) {
    int first = atoi(range), digits = (int)strspn(range, "0123456789");
    int last = range[digits] == '-' ? atoi(range + digits + 1) : first;
    for (int i = first; i <= last; i++) {
        char text[32];
        int length = snprintf(text, sizeof text, "%0*d", digits, i);
        int status = add_host(launch, prefix, prefix_length, text, (size_t)length);
        if (status)
            return status;
    }
    return MR_OK;
}

/* Reads "camera,node[1-3,7]": names, and names that end in number ranges. */
static int expand_hosts(mr_launch *launch, const char *list) {
    while (*list) {
        size_t length = strcspn(list, ",[");
        int status = MR_OK;
        if (list[length] != '[') {
            status = add_host(launch, list, length, "", 0);
            list += length;
        } else {
            const char *range = list + length + 1;
            while (!status && *range && *range != ']') {
                status = add_range(launch, list, length, range);
                range += strcspn(range, ",]");
                range += *range == ',';
            }
            list = *range ? range + 1 : range;
        }
        if (status)
            return status;
        list += *list == ',';
    }
    return MR_OK;
}

/* Reads "2(x3),1": two tasks on each of the first three machines, one on the fourth. Lists each machine once per task,
 * consecutively, because srun numbers tasks in that order by default. */
static int repeat_hosts(mr_launch *launch, const char *tasks) {
    mr_launch each = {0};
    size_t host = 0;
    int status = MR_OK;
    while (!status && *tasks && host < launch->host_count) {
        int count = atoi(tasks), times = 1;
        tasks += strspn(tasks, "0123456789");
        if (strncmp(tasks, "(x", 2) == 0) {
            times = atoi(tasks + 2);
            tasks += strcspn(tasks, ",");
        }
        tasks += *tasks == ',';
        for (; times > 0 && host < launch->host_count; times--, host++)
            for (int i = 0; i < count && !status; i++)
                status = add_host(&each, launch->hosts[host], strlen(launch->hosts[host]), "", 0);
    }
    for (size_t i = 0; i < launch->host_count; i++)
        free(launch->hosts[i]);
    free(launch->hosts);
    launch->hosts = each.hosts;
    launch->host_count = each.host_count;
    return status;
}

static int find_slurm(mr_launch *launch) {
    const char *hosts = either("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    const char *tasks = either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    launch->by = "Slurm";
    int status = take_number("SLURM_PROCID", &launch->process);
    if (!status)
        status = take_number("SLURM_NTASKS", &launch->processes);
    if (!status)
        status = take_number("SLURM_STEP_NUM_TASKS", &launch->processes);
    if (!status && hosts)
        status = expand_hosts(launch, hosts);
    return status || !tasks ? status : repeat_hosts(launch, tasks);
}

/* ---- other launchers ------------------------------------------------------------------------------------------- */

/* "classify-worker-2" is replica 2. */
static int ordinal_of(const char *host) {
    const char *dash = host ? strrchr(host, '-') : NULL;
    long long value;
    return dash && mr_parse_integer(dash + 1, 0, MR_LAUNCH_MOST, &value) ? (int)value : 0;
}

static int find_named(mr_launch *launch) {
    const char *hosts = getenv("MILLRACE_HOSTS");
    launch->by = "MILLRACE_NODE";
    launch->node = getenv("MILLRACE_NODE");
    launch->replica = ordinal_of(getenv("HOSTNAME"));
    int status = take_number("JOB_COMPLETION_INDEX", &launch->replica);
    if (!status)
        status = take_number("MILLRACE_REPLICA", &launch->replica);
    return status || !hosts ? status : expand_hosts(launch, hosts);
}

static int find_mpi(mr_launch *launch, const char *rank, const char *size) {
    launch->by = "MPI";
    int status = take_number(rank, &launch->process);
    if (!status)
        status = take_number(size, &launch->processes);
    const char *hosts = getenv("MILLRACE_HOSTS");
    return status || !hosts ? status : expand_hosts(launch, hosts);
}

int mr_launch_find(mr_launch *launch) {
    int status = MR_OK;
    *launch = (mr_launch){0};
    if (getenv("MILLRACE_NODE"))
        status = find_named(launch);
    else if (getenv("OMPI_COMM_WORLD_RANK"))
        status = find_mpi(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    else if (getenv("PMI_RANK"))
        status = find_mpi(launch, "PMI_RANK", "PMI_SIZE");
    else if (getenv("SLURM_PROCID"))
        status = find_slurm(launch);
    if (!status && launch->processes && launch->process >= launch->processes)
        status = mr_fail(MR_ERROR_USAGE, "%s says that this is process %d of %d", launch->by, launch->process,
                         launch->processes);
    /* A batch script or a one-task step also has SLURM_PROCID, but must run all nodes. */
    if (launch->processes == 1 && !launch->node)
        launch->by = NULL;
    return status;
}

void mr_launch_fini(mr_launch *launch) {
    for (size_t i = 0; i < launch->host_count; i++)
        free(launch->hosts[i]);
    free(launch->hosts);
    *launch = (mr_launch){0};
}

/* ---- this machine ---------------------------------------------------------------------------------------------- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b) {
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                                              &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                                              sizeof(struct in6_addr)) == 0;
}

/* 127.0.0.2 is this machine too, although no interface has it. */
static bool is_loopback(const struct sockaddr *address) {
    return address->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Whether an interface on this machine has one of the host's addresses. */
static bool is_ours(const char *host) {
    struct addrinfo *found = NULL;
    struct ifaddrs *own = NULL;
    bool ours = false;
    if (getaddrinfo(host, NULL, NULL, &found) == 0 && getifaddrs(&own) == 0)
        for (const struct addrinfo *its = found; its && !ours; its = its->ai_next) {
            ours = is_loopback(its->ai_addr);
            for (const struct ifaddrs *our = own; our && !ours; our = our->ifa_next)
                ours = same_address(our->ifa_addr, its->ai_addr);
        }
    if (found)
        freeaddrinfo(found);
    if (own)
        freeifaddrs(own);
    return ours;
}

bool mr_launch_is_here(const char *endpoint) {
    char host[256];
    if (!endpoint || strncmp(endpoint, "tcp://", 6) != 0)
        return true;
    snprintf(host, sizeof host, "%s", endpoint + 6);
    char *colon = strrchr(host, ':');
    if (colon)
        *colon = 0;
    /* [::1] without brackets. */
    size_t length = strlen(host);
    if (*host == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length - 2);
        host[length - 2] = 0;
    }
    return strcmp(host, "*") == 0 || is_ours(host);
}
