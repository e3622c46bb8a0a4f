// SPDX-License-Identifier: Apache-2.0
// Creates and joins threads.
#include "os/thread.h"

#include <signal.h>

enum err thread_start(struct thread *t, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    t->made = pthread_create(&t->id, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->made ? ERR_OK : ERR_LIMIT;
}

void thread_join(struct thread *t)
{
    if (t->made) (void)pthread_join(t->id, NULL);
    t->made = false;
}
