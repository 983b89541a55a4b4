/* Every public symbol of libibverbs and librdmacm that the device does not offer. They are exported all the same: a call
 * that is not would reach the real library with our objects. Deliberately without verbs.h: one row a function, and the
 * arguments do not matter to a refusal. Functions that are inline in verbs.h and go through the context are refused by
 * leaving their pointer empty (context.c). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/select.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define REFUSE_NEGATIVE(name) \
    EXPORT int name(void);    \
    EXPORT int name(void)     \
    {                         \
        errno = EOPNOTSUPP;   \
        return -1;            \
    }
#define REFUSE_ERRNO(name)  \
    EXPORT int name(void);  \
    EXPORT int name(void)   \
    {                       \
        errno = EOPNOTSUPP; \
        return EOPNOTSUPP;  \
    }
#define REFUSE_POINTER(name)  \
    EXPORT void *name(void);  \
    EXPORT void *name(void)   \
    {                         \
        errno = EOPNOTSUPP;   \
        return NULL;          \
    }
#define IGNORE(name)          \
    EXPORT int name(void);    \
    EXPORT int name(void)     \
    {                         \
        return 0;             \
    }

/* --- libibverbs: importing needs a kernel object behind a handle -------------------------------------------------------- */
REFUSE_POINTER(ibv_import_device)
REFUSE_POINTER(ibv_import_dm)
REFUSE_POINTER(ibv_import_mr)
REFUSE_POINTER(ibv_import_pd)
IGNORE(ibv_unimport_dm)
IGNORE(ibv_unimport_mr)
IGNORE(ibv_unimport_pd)
REFUSE_POINTER(ibv_reg_dmabuf_mr)
/* address handles and multicast: no datagram service */
REFUSE_POINTER(ibv_create_ah)
REFUSE_POINTER(ibv_create_ah_from_wc)
REFUSE_ERRNO(ibv_destroy_ah)
REFUSE_NEGATIVE(ibv_init_ah_from_wc)
REFUSE_ERRNO(ibv_attach_mcast)
REFUSE_ERRNO(ibv_detach_mcast)
REFUSE_NEGATIVE(ibv_resolve_eth_l2_from_gid)
REFUSE_ERRNO(ibv_set_ece)
REFUSE_ERRNO(ibv_query_ece)
/* conversions of kernel structures, for users of the kernel's CM interface */
IGNORE(ibv_copy_ah_attr_from_kern)
IGNORE(ibv_copy_path_rec_from_kern)
IGNORE(ibv_copy_path_rec_to_kern)
IGNORE(ibv_copy_qp_attr_from_kern)

/* --- private to libibverbs and its providers. A provider linked into the program registers itself when it is loaded:
 * that is ignored. None of the rest is reached without a kernel device. ------------------------------------------------- */
EXPORT int verbs_allow_disassociate_destroy;
int verbs_allow_disassociate_destroy;
IGNORE(ibv_register_driver)
IGNORE(verbs_register_driver_34)
IGNORE(__ioctl_final_num_attrs)
IGNORE(__verbs_log)
IGNORE(verbs_set_ops)
IGNORE(verbs_init_cq)
IGNORE(verbs_uninit_context)
REFUSE_POINTER(_verbs_init_and_alloc_context)
REFUSE_POINTER(verbs_open_device)
REFUSE_ERRNO(execute_ioctl)
REFUSE_NEGATIVE(ibv_read_ibdev_sysfs_file)
REFUSE_ERRNO(ibv_cmd_advise_mr)
REFUSE_ERRNO(ibv_cmd_alloc_dm)
REFUSE_ERRNO(ibv_cmd_alloc_mw)
REFUSE_ERRNO(ibv_cmd_alloc_pd)
REFUSE_ERRNO(ibv_cmd_attach_mcast)
REFUSE_ERRNO(ibv_cmd_close_xrcd)
REFUSE_ERRNO(ibv_cmd_create_ah)
REFUSE_ERRNO(ibv_cmd_create_counters)
REFUSE_ERRNO(ibv_cmd_create_cq)
REFUSE_ERRNO(ibv_cmd_create_cq_ex)
REFUSE_ERRNO(ibv_cmd_create_flow)
REFUSE_ERRNO(ibv_cmd_create_flow_action_esp)
REFUSE_ERRNO(ibv_cmd_create_qp)
REFUSE_ERRNO(ibv_cmd_create_qp_ex)
REFUSE_ERRNO(ibv_cmd_create_qp_ex2)
REFUSE_ERRNO(ibv_cmd_create_rwq_ind_table)
REFUSE_ERRNO(ibv_cmd_create_srq)
REFUSE_ERRNO(ibv_cmd_create_srq_ex)
REFUSE_ERRNO(ibv_cmd_create_wq)
REFUSE_ERRNO(ibv_cmd_dealloc_mw)
REFUSE_ERRNO(ibv_cmd_dealloc_pd)
REFUSE_ERRNO(ibv_cmd_dereg_mr)
REFUSE_ERRNO(ibv_cmd_destroy_ah)
REFUSE_ERRNO(ibv_cmd_destroy_counters)
REFUSE_ERRNO(ibv_cmd_destroy_cq)
REFUSE_ERRNO(ibv_cmd_destroy_flow)
REFUSE_ERRNO(ibv_cmd_destroy_flow_action)
REFUSE_ERRNO(ibv_cmd_destroy_qp)
REFUSE_ERRNO(ibv_cmd_destroy_rwq_ind_table)
REFUSE_ERRNO(ibv_cmd_destroy_srq)
REFUSE_ERRNO(ibv_cmd_destroy_wq)
REFUSE_ERRNO(ibv_cmd_detach_mcast)
REFUSE_ERRNO(ibv_cmd_free_dm)
REFUSE_ERRNO(ibv_cmd_get_context)
REFUSE_ERRNO(ibv_cmd_modify_cq)
REFUSE_ERRNO(ibv_cmd_modify_flow_action_esp)
REFUSE_ERRNO(ibv_cmd_modify_qp)
REFUSE_ERRNO(ibv_cmd_modify_qp_ex)
REFUSE_ERRNO(ibv_cmd_modify_srq)
REFUSE_ERRNO(ibv_cmd_modify_wq)
REFUSE_ERRNO(ibv_cmd_open_qp)
REFUSE_ERRNO(ibv_cmd_open_xrcd)
REFUSE_ERRNO(ibv_cmd_poll_cq)
REFUSE_ERRNO(ibv_cmd_post_recv)
REFUSE_ERRNO(ibv_cmd_post_send)
REFUSE_ERRNO(ibv_cmd_post_srq_recv)
REFUSE_ERRNO(ibv_cmd_query_context)
REFUSE_ERRNO(ibv_cmd_query_device_any)
REFUSE_ERRNO(ibv_cmd_query_mr)
REFUSE_ERRNO(ibv_cmd_query_port)
REFUSE_ERRNO(ibv_cmd_query_qp)
REFUSE_ERRNO(ibv_cmd_query_srq)
REFUSE_ERRNO(ibv_cmd_read_counters)
REFUSE_ERRNO(ibv_cmd_reg_dm_mr)
REFUSE_ERRNO(ibv_cmd_reg_dmabuf_mr)
REFUSE_ERRNO(ibv_cmd_reg_mr)
REFUSE_ERRNO(ibv_cmd_req_notify_cq)
REFUSE_ERRNO(ibv_cmd_rereg_mr)
REFUSE_ERRNO(ibv_cmd_resize_cq)

/* --- librdmacm: multicast, ECE ------------------------------------------------------------------------------------------- */
REFUSE_NEGATIVE(rdma_join_multicast)
REFUSE_NEGATIVE(rdma_join_multicast_ex)
REFUSE_NEGATIVE(rdma_leave_multicast)
REFUSE_NEGATIVE(rdma_set_local_ece)
REFUSE_NEGATIVE(rdma_get_remote_ece)
REFUSE_NEGATIVE(rdma_reject_ece)

/* --- rsockets -------------------------------------------------------------------------------------------------------------- */
REFUSE_NEGATIVE(rsocket)
REFUSE_NEGATIVE(raccept)
REFUSE_NEGATIVE(rbind)
REFUSE_NEGATIVE(rclose)
REFUSE_NEGATIVE(rconnect)
REFUSE_NEGATIVE(rfcntl)
REFUSE_NEGATIVE(rgetpeername)
REFUSE_NEGATIVE(rgetsockname)
REFUSE_NEGATIVE(rgetsockopt)
REFUSE_NEGATIVE(riomap)
REFUSE_NEGATIVE(riounmap)
REFUSE_NEGATIVE(riowrite)
REFUSE_NEGATIVE(rlisten)
REFUSE_NEGATIVE(rread)
REFUSE_NEGATIVE(rreadv)
REFUSE_NEGATIVE(rrecv)
REFUSE_NEGATIVE(rrecvfrom)
REFUSE_NEGATIVE(rrecvmsg)
REFUSE_NEGATIVE(rsend)
REFUSE_NEGATIVE(rsendmsg)
REFUSE_NEGATIVE(rsendto)
REFUSE_NEGATIVE(rsetsockopt)
REFUSE_NEGATIVE(rshutdown)
REFUSE_NEGATIVE(rwrite)
REFUSE_NEGATIVE(rwritev)

/* No descriptor here is an rsocket, and for any other these two do what poll() and select() do. */
EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout_ms);
EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return poll(fds, n, timeout_ms);
}

EXPORT int rselect(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *t);
EXPORT int rselect(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *t)
{
    return select(n, r, w, x, t);
}

/* --- answered, though there is nothing to do -------------------------------------------------------------------------------- */

/* The device reads and writes by virtual address: a fork takes nothing away from the parent, and the child is refused. */
IGNORE(ibv_fork_init)
IGNORE(ibv_dontfork_range)
IGNORE(ibv_dofork_range)

EXPORT int ibv_is_fork_initialized(void);
EXPORT int ibv_is_fork_initialized(void)
{
    return 2; /* IBV_FORK_UNNEEDED */
}

EXPORT const char *ibv_get_sysfs_path(void);
EXPORT const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[512];
    if (size == 0 || snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buf, size);
    close(fd);
    if (n > 0 && buf[n - 1] == '\n')
        n--;
    if (n >= 0 && (size_t)n < size)
        buf[n] = 0;
    return (int)n;
}
