/* What happens to a session when nothing happens: no HELLO, no ALIVE, no answer to keep-alive, no completion of BYE. One timer
 * descriptor serves all sessions. Called by responder.c and messages.c. */
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "responder_private.h"

/* Retries of a dead peer's NIC are over long before (cm.h); this is for a NIC that never says so. */
static const uint64_t PROBE_TIMEOUT_NS = UINT64_C(10000000000);

static uint64_t after_ms(uint64_t now_ns, uint32_t ms)
{
    return ms ? now_ns + (uint64_t)ms * 1000000u : UINT64_MAX;
}

void session_heard(struct zc_responder *r, struct session *session)
{
    const uint64_t now_ns = zc_now_ns();
    session->deadline_ns = after_ms(now_ns, r->params.idle_timeout_ms);
    if (!session->probing)
        session->probe_ns = after_ms(now_ns, r->params.keepalive_interval_ms);
    r->deadlines_changed = true;
}

void session_probed(struct zc_responder *r, struct session *session)
{
    session->probing = false;
    session->probe_ns = after_ms(zc_now_ns(), r->params.keepalive_interval_ms);
    r->deadlines_changed = true;
}

static void probe(struct zc_responder *r, struct session *session, uint64_t now_ns)
{
    if (session->probing || messages_send_probe(session) != 0) {
        session_end(r, session, END_UNREACHABLE, "keep-alive was not answered");
        return;
    }
    session->probing = true;
    session->probe_ns = now_ns + PROBE_TIMEOUT_NS;
}

static void expire(struct zc_responder *r, struct session *session, uint64_t now_ns)
{
    switch (session->state) {
    case SESSION_CONNECTING:
        if (session->deadline_ns <= now_ns)
            session_end(r, session, END_TIMEOUT, "no HELLO came in time");
        break;
    case SESSION_PROVING:
    case SESSION_BINDING:
        if (session->deadline_ns <= now_ns)
            session_end(r, session, END_TIMEOUT, "it did not come to a WELCOME in time");
        break;
    case SESSION_READY:
        if (session->deadline_ns <= now_ns)
            responder_close(r, session, ZC_PEER_IDLE);
        else if (session->probe_ns <= now_ns)
            probe(r, session, now_ns);
        break;
    case SESSION_CLOSING:
        if (session->deadline_ns <= now_ns)
            responder_closed(r, session);
        break;
    case SESSION_STATES:
        break;
    }
}

void deadlines_expire(struct zc_responder *r)
{
    uint64_t expirations, now_ns = zc_now_ns();
    if (read(r->timer_fd, &expirations, sizeof(expirations)) != sizeof(expirations))
        return;
    r->deadlines_changed = true;
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i])
            expire(r, r->sessions[i], now_ns);
}

static uint64_t next_ns(const struct session *session)
{
    if (session->state == SESSION_READY && session->probe_ns < session->deadline_ns)
        return session->probe_ns;
    return session->deadline_ns;
}

void deadlines_set(struct zc_responder *r)
{
    uint64_t earliest_ns = UINT64_MAX;
    if (!r->deadlines_changed)
        return;
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i] && next_ns(r->sessions[i]) < earliest_ns)
            earliest_ns = next_ns(r->sessions[i]);
    struct itimerspec timer = {0};      /* all zero disarms */
    if (earliest_ns != UINT64_MAX)
        timer.it_value = (struct timespec){.tv_sec = (time_t)(earliest_ns / 1000000000u), .tv_nsec = (long)(earliest_ns % 1000000000u)};
    timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    r->deadlines_changed = false;
}
