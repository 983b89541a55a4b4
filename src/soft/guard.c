/* Touching memory that the program may have unmapped without deregistering it, or that is registered on demand and not
 * there. A NIC would keep the pages, or answer with an error; a plain memcpy() would kill the process. So the moves happen
 * under a handler for SIGSEGV and SIGBUS which takes the thread out of the move and leaves every other fault to whoever had
 * the signal before. It costs the data path the saving of a few registers. What it cannot do: if something else has been
 * mapped at the address meanwhile, that is read and written. A program that installs a handler of its own is without the
 * protection until the next registration or queue pair, which puts this one in front again. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "soft.h"

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    sigjmp_buf env;
    volatile sig_atomic_t armed;
    void *volatile at;
} guard;

/* Who had the signals before: the first time, and the last. */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction first[2], before[2];
static bool installed[2];

#define PASSED_ON 0x7a63 /* in si_errno, which the kernel leaves 0 */

/* Not ours: as if this handler were not there. The handler that is asked may itself have saved ours and ask back: then it
 * is the turn of the one that was there first. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *old = info->si_errno == PASSED_ON ? &first[sig == SIGBUS] : &before[sig == SIGBUS];
    info->si_errno = PASSED_ON;
    if (old->sa_flags & SA_SIGINFO && old->sa_sigaction) {
        old->sa_sigaction(sig, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(sig);
    } else if (info->si_code > 0 || old->sa_handler == SIG_DFL) { /* a real fault cannot be ignored */
        struct sigaction dfl = {.sa_handler = SIG_DFL};
        sigaction(sig, &dfl, NULL);
        if (info->si_code <= 0) /* sent by a process: the instruction will not fault again by itself */
            raise(sig);
    }
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    if (!guard.armed || info->si_code <= 0) {
        pass_on(sig, info, context);
        return;
    }
    guard.armed = 0;
    guard.at = info->si_addr;
    /* Leave with the mask that a return would restore: whoever stands between the kernel and this handler (ThreadSanitizer, a
     * program's own handler that asks on) may have blocked the signal, and the next fault would kill the process. */
    pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)context)->uc_sigmask, NULL);
    siglongjmp(guard.env, 1);
}

static void install(int sig)
{
    /* SA_NODEFER: a program's handler that is asked may leave by a jump, too, and had it so itself */
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART}, now;
    int i = sig == SIGBUS;
    if (sigaction(sig, NULL, &now) < 0 || now.sa_sigaction == on_fault)
        return;
    before[i] = now;
    if (!installed[i])
        first[i] = now;
    installed[i] = true;
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, NULL);
}

void zs_guard_install(void)
{
    pthread_mutex_lock(&install_lock);
    install(SIGSEGV);
    install(SIGBUS);
    pthread_mutex_unlock(&install_lock);
}

static inline void arm(sig_atomic_t on)
{
    atomic_signal_fence(memory_order_seq_cst);
    guard.armed = on;
    atomic_signal_fence(memory_order_seq_cst);
}

bool zs_move(void *to, const void *from, size_t n)
{
    if (sigsetjmp(guard.env, 0))
        return false;
    arm(1);
    zs_copy(to, from, n);
    arm(0);
    return true;
}

bool zs_touch(const void *from, size_t n)
{
    const volatile uint8_t *p = from;
    if (sigsetjmp(guard.env, 0))
        return false;
    arm(1);
    for (size_t at = 0; at < n; at += 4096)
        (void)p[at];
    (void)p[n - 1];
    arm(0);
    return true;
}

/* ThreadSanitizer's own atomics hold a lock inside while they touch the memory, and a jump out of them would leave it held. */
__attribute__((no_sanitize("thread"))) bool zs_change(uint64_t *at, bool add, uint64_t a, uint64_t b, uint64_t *found)
{
    if (sigsetjmp(guard.env, 0))
        return false;
    arm(1);
    if (add) {
        *found = __atomic_fetch_add(at, a, __ATOMIC_SEQ_CST);
    } else {
        *found = a;
        __atomic_compare_exchange_n(at, found, b, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    arm(0);
    return true;
}

bool zs_fault_was_in(const void *p, size_t n)
{
    uintptr_t at = (uintptr_t)guard.at, start = (uintptr_t)p & ~(uintptr_t)4095;
    return at >= start && at < (uintptr_t)p + n;
}
