// SPDX-License-Identifier: Apache-2.0
// A scope holds its lock, and every way out of it releases the lock.
#include "os/lock.h"

#include "unit.h"

static bool is_free(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0) return false;
    (void)pthread_mutex_unlock(lock);
    return true;
}

static bool held_until_return(pthread_mutex_t *lock, bool early)
{
    LOCKED(lock);
    if (early) return !is_free(lock);
    return !is_free(lock);
}

static void the_end_of_a_scope_releases_the_lock(void **state)
{
    (void)state;
    pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
    {
        LOCKED(&one);
        LOCKED(&two);
        assert_false(is_free(&one));
        assert_false(is_free(&two));
    }
    assert_true(is_free(&one));
    assert_true(is_free(&two));
}

static void every_return_releases_the_lock(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    assert_true(held_until_return(&lock, true));
    assert_true(is_free(&lock));
    assert_true(held_until_return(&lock, false));
    assert_true(is_free(&lock));
}

static void each_turn_of_a_loop_releases_the_lock(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 3; i++) {
        assert_true(is_free(&lock));
        LOCKED(&lock);
        if (i == 0) continue;
        if (i == 1) break;
    }
    assert_true(is_free(&lock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_scope_releases_the_lock),
        cmocka_unit_test(every_return_releases_the_lock),
        cmocka_unit_test(each_turn_of_a_loop_releases_the_lock),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
