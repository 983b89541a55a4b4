/* Who may listen on a path: the holder of PATH.lock (flock(2)), which the kernel releases when a daemon dies, so that a socket left
 * behind is known to be stale. See control_socket.h. */
#include "control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "store.h"

static int failed_on(const char *path, const char *what, int errnum, struct zc_error *err)
{
    return zc_error_set(err, errnum == -EACCES || errnum == -EPERM ? ZC_ERR_DENIED : ZC_ERR_RESOURCE, errnum, "socket",
                        "control socket: %s %s: %s", what, path, strerror(-errnum));
}

static int make_parent(const char *path, struct zc_error *err)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    int failed = make_folders(folder);
    return failed ? failed_on(folder, "cannot make folder", failed, err) : 0;
}

/* The holder writes its process id into the lock, for this message only. */
static int busy(const struct control_socket *socket, int fd, struct zc_error *err)
{
    char holder[32] = "";
    ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
    holder[got > 0 ? got : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    return zc_error_set(err, ZC_ERR_BUSY, -EADDRINUSE, "socket", "another zcrdmad (process %s) runs on %s", *holder ? holder : "?",
                        socket->path);
}

/* The lock file is removed by its holder, so the file that was locked may not be the one that has the name now: try again then. */
static int take_lock(struct control_socket *socket, struct zc_error *err)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        struct stat locked, named;
        int fd = open(socket->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
            return failed_on(socket->lock_path, "cannot open", -errno, err);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int failed = errno == EWOULDBLOCK ? busy(socket, fd, err) : failed_on(socket->lock_path, "cannot lock", -errno, err);
            close(fd);
            return failed;
        }
        if (fstat(fd, &locked) == 0 && stat(socket->lock_path, &named) == 0 && locked.st_ino == named.st_ino
            && locked.st_dev == named.st_dev) {
            if (ftruncate(fd, 0) == 0)
                dprintf(fd, "%d\n", (int)getpid());
            socket->lock_fd = fd;
            return 0;
        }
        close(fd);
    }
    return failed_on(socket->lock_path, "cannot lock", -EAGAIN, err);
}

static int remove_stale(const char *path, struct zc_error *err)
{
    struct stat stat;
    if (lstat(path, &stat) != 0)
        return errno == ENOENT ? 0 : failed_on(path, "cannot look at", -errno, err);
    if (!S_ISSOCK(stat.st_mode))
        return zc_error_set(err, ZC_ERR_RESOURCE, -EEXIST, "socket", "control socket: %s exists and is not a socket", path);
    return unlink(path) == 0 ? 0 : failed_on(path, "cannot remove stale", -errno, err);
}

static int listen_on(struct control_socket *control, struct zc_error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, control->path, strlen(control->path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed_on(control->path, "cannot make", -errno, err);
    mode_t before = umask(0177);    /* there is no moment at which others could connect */
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    int failed = bound != 0 ? -errno : 0;
    umask(before);
    if (!failed && listen(fd, SOMAXCONN) != 0)
        failed = -errno;
    if (failed) {
        close(fd);
        return failed_on(control->path, "cannot listen on", failed, err);
    }
    control->fd = fd;
    return 0;
}

gid_t control_group(const char *name)
{
    const struct group *group = name ? getgrnam(name) : NULL;
    return group ? group->gr_gid : (gid_t)-1;
}

static int open_to(const char *path, const struct control_access *access, struct zc_error *err)
{
    mode_t mode = access->mode;
    gid_t group = control_group(access->group);
    if (access->group && (group == (gid_t)-1 || chown(path, (uid_t)-1, group) != 0)) {
        log_info("control socket: %s %s: only root and the daemon's own user may use it", access->group,
                 group == (gid_t)-1 ? "is no group here" : strerror(errno));
        mode &= ~(mode_t)S_IRWXG;
    }
    return chmod(path, mode) == 0 ? 0 : failed_on(path, "cannot set the mode of", -errno, err);
}

int control_user_of(int fd, gid_t group, struct control_user *user)
{
    struct ucred credentials;
    gid_t groups[NGROUPS_MAX];
    socklen_t size = sizeof credentials, groups_size = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_size) != 0)
        groups_size = 0;
    bool administrator = credentials.uid == 0 || credentials.uid == geteuid();
    bool member = administrator || (group != (gid_t)-1 && credentials.gid == group);
    for (size_t i = 0; group != (gid_t)-1 && i < groups_size / sizeof groups[0]; i++)
        member = member || groups[i] == group;
    *user = (struct control_user){ .uid = credentials.uid, .pid = credentials.pid, .administrator = administrator,
                                   .member = member };
    return 0;
}

int control_socket_open(const char *path, const struct control_access *access, struct control_socket *socket, struct zc_error *err)
{
    struct control_socket opened = { .fd = -1, .lock_fd = -1 };
    size_t longest = sizeof ((struct sockaddr_un *)0)->sun_path - 1;
    if (strlen(path) > longest)
        return zc_error_set(err, ZC_ERR_INVALID, -ENAMETOOLONG, "socket", "socket: '%.200s' is longer than %zu bytes", path,
                            longest);
    snprintf(opened.path, sizeof opened.path, "%s", path);
    snprintf(opened.lock_path, sizeof opened.lock_path, "%.200s.lock", path);
    int failed = make_parent(path, err);
    if (!failed)
        failed = take_lock(&opened, err);
    if (failed)
        return failed;
    failed = remove_stale(path, err);
    if (!failed)
        failed = listen_on(&opened, err);
    if (!failed)
        failed = open_to(path, access, err);
    if (failed) {
        if (opened.fd >= 0) {
            unlink(path);
            close(opened.fd);
        }
        unlink(opened.lock_path);
        close(opened.lock_fd);
        return failed;
    }
    *socket = opened;
    return 0;
}

void control_socket_close(struct control_socket *socket)
{
    if (socket->fd >= 0) {
        if (!socket->given)
            unlink(socket->path);
        close(socket->fd);
    }
    if (socket->lock_fd >= 0) {
        unlink(socket->lock_path);      /* while it is held: see take_lock() */
        close(socket->lock_fd);
    }
    socket->fd = socket->lock_fd = -1;
}
