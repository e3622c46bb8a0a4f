// SPDX-License-Identifier: Apache-2.0
// Runs a command whose S3 server is behind a fault proxy, and says at the end what passed through.
//   fault-proxy [--seed N] [--chance N] [--spare-puts] [--quiet] COMMAND...
// --chance: of each kind of fault, 100 is 1 %; without it the proxy only counts.
#include "fault_proxy.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const methods[] = {"PUT", "GET", "HEAD", "POST", "DELETE"};

static void tell(const struct fault_proxy *p)
{
    (void)fprintf(stderr, "# requests:");
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        (void)fprintf(stderr, " %s %" PRIu64, methods[i], proxy_requests(p, methods[i]));
    (void)fprintf(stderr, "\n# faults:");
    for (int f = PROXY_PASS; f < PROXY_FAULTS; f++)
        (void)fprintf(stderr, " %s %" PRIu64, proxy_fault_name((enum proxy_fault)f),
                      proxy_count(p, (enum proxy_fault)f));
    (void)fprintf(stderr, "\n");
}

static int run(char **command)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        (void)execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"seed", required_argument, NULL, 's'},
                                          {"chance", required_argument, NULL, 'c'},
                                          {"spare-puts", no_argument, NULL, 'p'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {0}};
    uint64_t seed = 1;
    uint32_t chance = 0;
    bool spare = false, quiet = false;
    for (int o; (o = getopt_long(argc, argv, "+", names, NULL)) != -1;) {
        if (o == 's') seed = strtoull(optarg, NULL, 10);
        if (o == 'c') chance = (uint32_t)strtoul(optarg, NULL, 10);
        if (o == 'p') spare = true;
        if (o == 'q') quiet = true;
        if (o == '?') return 2;
    }
    const char *server = getenv("AWS_ENDPOINT_URL_S3");
    if (optind >= argc || !server) return 2;
    struct fault_proxy *p = proxy_start(server, seed);
    if (!p) {
        perror("fault-proxy");
        return 1;
    }
    struct proxy_faults faults = proxy_all_faults(chance);
    faults.spares_puts = spare;
    proxy_set(p, &faults);
    (void)setenv("AWS_ENDPOINT_URL_S3", proxy_url(p), 1);
    int status = run(argv + optind);
    if (!quiet) tell(p);
    proxy_stop(p);
    return status;
}
