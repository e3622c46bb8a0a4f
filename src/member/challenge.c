// SPDX-License-Identifier: Apache-2.0
// Asks members whether they live. A node that is alone on `store:` gives no signs of life, so its
// record says nothing when it has died. Its successor asks at the URL of the record. A member that
// does not answer has one lease to give a sign of life.
#include "member/inside.h"
#include "os/lock.h"
#include "protocol/routes.h"

#include "base/memory.h"
#include "net/http.h"
#include "peer/peer.h"

#include <stdio.h>
#include <string.h>

#define ALIVE_MS 1000 // how long a member may take to answer

// The name suffices: the port of a node that died may belong to another process. A member that is
// taken for dead by mistake loses nothing but its shards: the journals refuse its old tokens.
bool member_answers(const char *url, const char *name)
{
    char target[COORD_URL_MAX + 16];
    (void)snprintf(target, sizeof target, "%s/healthz", url);
    LOCAL(http_call, call, "GET", target);
    call.timeout_ms = ALIVE_MS;
    struct http *http = peer_http();
    http_do(http, &call);
    http_free(http);
    return call.end == HTTP_ANSWERED &&
           bytes_equal(http_header(&call, PEER_HEADER), bytes_str(name));
}

struct challenge_job {
    struct pool_job job; // first
    struct membership *m;
    struct coord_member member;
};

static void challenge_run(struct pool_job *pool_job)
{
    struct challenge_job *job = (struct challenge_job *)pool_job;
    struct membership *m = job->m;
    coord_answers(m->coord, &job->member, member_answers(job->member.url, job->member.name));
    (void)pthread_mutex_lock(&m->lock);
    m->challenges--;
    (void)pthread_mutex_unlock(&m->lock);
    memory_free(job);
}

// Two at a time, because a member that does not answer costs a second. The next round begins when
// the last one has ended. Heartbeats need the other threads.
void members_challenge(struct membership *m, const struct coord_answer *listed)
{
    LOCKED(&m->lock);
    bool busy = m->challenges > 0;
    for (size_t i = 0; !busy && i < listed->members_len; i++) {
        const struct coord_member *row = &listed->members[i];
        if (!row->silent || strcmp(row->name, m->self.name) == 0) continue;
        struct challenge_job *job = NEW(struct challenge_job);
        *job = (struct challenge_job){.job = {.run = challenge_run}, .m = m, .member = *row};
        m->challenges++;
        uint64_t key = m->challenges % 2 ? 7 : 0;
        if (!m->left && !pool_share_run(m->share, key, &job->job)) continue;
        m->challenges--;
        memory_free(job);
    }
}
