/* What a check says, and the names it says it in. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int answer_fd = -1;
static bool said;

void answer_to(int fd)
{
    answer_fd = fd;
}

void answer_close(void)
{
    close(answer_fd);
    answer_fd = -1;
}

void say(const char *format, ...)
{
    char text[256];
    va_list ap;
    int n = 0;
    if (said)
        n = snprintf(text, sizeof text, ", ");
    va_start(ap, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n, format, ap);
    va_end(ap);
    if (n >= (int)sizeof text)
        n = (int)sizeof text - 1;
    said = true;
    if (answer_fd >= 0 && write(answer_fd, text, (size_t)n) != n)
        _exit(2);
}

void give_up(const char *what, int rc)
{
    say("broken: %s: %s", what, error_name(rc));
    _exit(1);
}

void need(int rc, const char *what)
{
    if (rc)
        give_up(what, rc);
}

void *need_ptr(void *p, const char *what)
{
    if (!p)
        give_up(what, -1);
    return p;
}

const char *error_name(int rc)
{
    if (rc == 0)
        return "ok";
    const char *s = strerrorname_np(rc == -1 ? errno : abs(rc));
    return s ? s : "error without a number";
}

const char *status_name(enum ibv_wc_status status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "ok",
        [IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
        [IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
        [IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
        [IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
        [IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
        [IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
        [IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
        [IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
        [IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
        [IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
        [IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
        [IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
        [IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
        [IBV_WC_FATAL_ERR] = "FATAL_ERR",
        [IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
        [IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
    };
    if ((size_t)status < sizeof names / sizeof *names && names[status])
        return names[status];
    return "unknown status";
}

const char *opcode_name(enum ibv_wc_opcode opcode)
{
    switch (opcode) {
    case IBV_WC_SEND:
        return "SEND";
    case IBV_WC_RDMA_WRITE:
        return "RDMA_WRITE";
    case IBV_WC_RDMA_READ:
        return "RDMA_READ";
    case IBV_WC_COMP_SWAP:
        return "COMP_SWAP";
    case IBV_WC_FETCH_ADD:
        return "FETCH_ADD";
    case IBV_WC_BIND_MW:
        return "BIND_MW";
    case IBV_WC_LOCAL_INV:
        return "LOCAL_INV";
    case IBV_WC_RECV:
        return "RECV";
    case IBV_WC_RECV_RDMA_WITH_IMM:
        return "RECV_RDMA_WITH_IMM";
    default:
        return "unknown opcode";
    }
}

const char *state_name(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown state";
}

const char *event_name(enum ibv_event_type type)
{
    static const char *const names[] = {
        [IBV_EVENT_CQ_ERR] = "CQ_ERR",
        [IBV_EVENT_QP_FATAL] = "QP_FATAL",
        [IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
        [IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
        [IBV_EVENT_COMM_EST] = "COMM_EST",
        [IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
        [IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "LAST_WQE_REACHED",
    };
    if ((size_t)type < sizeof names / sizeof *names && names[type])
        return names[type];
    return "another event";
}
