// SPDX-License-Identifier: Apache-2.0
// Nodes that can be killed and stopped.
#include "nodes.h"

#include "net/http.h"
#include "server/server.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

extern char **environ;

int node_serve(const char *dir, const char *name)
{
    struct sluice *store = NULL;
    struct server *server = NULL;
    struct server_config config = {.listen = "127.0.0.1:0", .node = name};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sluice_open(dir, NULL, &store, NULL) || server_start(&config, store, &server, NULL))
        return 1;
    (void)printf("%s\n", server_address(server));
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}

void node_start(struct node *n, const char *dir, const char *name)
{
    int out[2];
    char line[64] = "";
    char program[] = "owner", mode[] = "node";
    char *const argv[] = {program, mode, (char *)dir, (char *)name, NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(out), 0);
    for (int i = 0; i < 2; i++)
        (void)fcntl(out[i], F_SETFD, FD_CLOEXEC);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&n->pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    FILE *said = fdopen(out[0], "r");
    assert_non_null(said);
    assert_non_null(fgets(line, sizeof line, said));
    (void)fclose(said);
    line[strcspn(line, "\n")] = 0;
    (void)snprintf(n->url, sizeof n->url, "http://%s", line);
}

void node_kill(struct node *n)
{
    if (n->pid == 0) return;
    (void)kill(n->pid, SIGKILL);
    assert_int_equal(waitpid(n->pid, NULL, 0), n->pid);
    n->pid = 0;
}

void node_stop(const struct node *n)
{
    int status;
    (void)kill(n->pid, SIGSTOP);
    assert_int_equal(waitpid(n->pid, &status, WUNTRACED), n->pid);
    assert_true(WIFSTOPPED(status));
}

int node_number(const struct node *n, const char *path, const char *before)
{
    struct http *http = http_new(NULL);
    struct http_call call;
    char url[120];
    (void)snprintf(url, sizeof url, "%s%s", n->url, path);
    http_call_init(&call, "GET", url);
    http_do(http, &call);
    assert_int_equal(call.status, 200);
    buf_put_u8(&call.body_in, 0);
    const char *told = strstr((const char *)call.body_in.data, before);
    assert_non_null(told);
    int number = atoi(told + strlen(before));
    http_call_done(&call);
    http_free(http);
    return number;
}
