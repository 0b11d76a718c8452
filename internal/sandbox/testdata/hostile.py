"""Hostile programs, one a function. Each prints ESCAPED for what it achieves, and held at its end."""

import ctypes
import errno
import mmap
import os
import platform
import resource
import signal
import socket
import sys
import threading
import time

name, tests, reward, owner = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
arm = platform.machine() == "aarch64"


def escaped(*what):
    print("ESCAPED", *what, flush=True)


def attempt(what, function, *arguments):
    """Report an escape unless the function raises."""
    try:
        result = function(*arguments)
    except BaseException:
        return None
    escaped(what, result)
    return result


def call(number, *arguments):
    """Make a system call; a pair of numbers is that of amd64 and that of arm64."""
    if isinstance(number, tuple):
        number = number[arm]
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])


def denied(what, number, *arguments, wants=(errno.EPERM, errno.ENOSYS)):
    """Report an escape unless the call fails with one of the errors."""
    ctypes.set_errno(0)
    result = call(number, *arguments)
    if result >= 0 or ctypes.get_errno() not in wants:
        escaped(what, result, os.strerror(ctypes.get_errno()))
    return result


def fork_bomb():
    count = 0
    try:
        while count < 500:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            count += 1
    except OSError:
        pass
    if count > 24:
        escaped(count, "processes")


def fork_and_exit_bomb():
    while True:  # each child goes on for its parent, so no process lives long
        try:
            if os.fork():
                time.sleep(0.0001)
                if os.getpid() != 1 and os.environ.get("CHILD"):
                    os._exit(0)
            else:
                os.environ["CHILD"] = "1"
        except OSError:
            pass


def thread_bomb():
    threading.stack_size(1 << 16)
    count = 0
    try:
        while count < 500:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            count += 1
    except (RuntimeError, MemoryError):
        pass
    if count > 24:
        escaped(count, "threads")
    print("held", flush=True)
    os._exit(0)


def memory_bomb():
    held = []
    try:
        while len(held) < 64:
            held.append(bytearray(16 << 20))
    except MemoryError:
        return
    escaped(len(held) * 16, "MiB")


def memory_of_many_processes():
    readable, writable = os.pipe()
    for _ in range(12):
        if os.fork() == 0:
            try:
                data = bytearray(48 << 20)
                for i in range(0, len(data), 4096):
                    data[i] = 1
                os.write(writable, b"x")
            except MemoryError:
                pass
            time.sleep(1)
            os._exit(0)
    os.close(writable)
    count = len(os.read(readable, 100))
    time.sleep(0.5)
    count += len(os.read(readable, 100)) if count else 0
    if count > 2:
        escaped(count * 48, "MiB in all")


def shared_memory():
    held = []
    try:
        while len(held) < 16:
            held.append(mmap.mmap(-1, 16 << 20))
            held[-1].write(b"x" * (16 << 20))
    except (OSError, ValueError):
        return
    escaped(len(held) * 16, "MiB")


def memory_files():
    attempt("memfd_create", os.memfd_create, "x")
    denied("memfd_secret", 447, 0)


def system_v_memory():
    denied("shmget", (29, 194), 0, 1 << 20, 0o1600)
    denied("msgget", (68, 186), 0, 0o1600)
    denied("mq_open", (240, 180), b"/x", 0o102, 0o600, None)


def memory_of_pipes():
    import fcntl
    total, held = 0, []
    try:
        while total < 512 << 20:
            r, w = os.pipe()
            held.append((r, w))
            try:
                fcntl.fcntl(w, 1031, 1 << 20)
            except OSError:
                pass
            os.set_blocking(w, False)
            try:
                while True:
                    total += os.write(w, b"x" * 65536)
            except BlockingIOError:
                pass
    except OSError:
        pass
    if total > 256 << 20:
        escaped(total >> 20, "MiB of pipes")


def disk_fill():
    total = 0
    try:
        for folder in (".", "/tmp", "/dev/shm"):
            for i in range(100):
                with open("%s/fill%d" % (folder, i), "wb", buffering=0) as f:
                    while True:
                        n = f.write(b"x" * 65536)
                        if not n:
                            break
                        total += n
                        if f.tell() >= 1 << 20:
                            break
    except OSError:
        pass
    if total > 9 << 20:
        escaped(total, "bytes of files")


def inode_fill():
    count = 0
    try:
        while count < 5000:
            open("inode%d" % count, "w").close()
            count += 1
    except OSError:
        pass
    if count > 1100:
        escaped(count, "files")


def large_file():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with open("large", "wb", buffering=0) as f:
            f.truncate(1 << 30)
            escaped("a file of 1 GiB")
    except OSError:
        pass
    total = 0
    try:
        with open("large2", "wb", buffering=0) as f:
            while total < 64 << 20:
                n = f.write(b"x" * 65536)
                total += n
                if n < 65536:
                    break
    except OSError:
        pass
    if total > 4 << 20:
        escaped(total, "bytes in a file")


def deep_folders():
    for _ in range(100000):
        os.mkdir("d")
        os.chdir("d")


def forbidden_folder():
    os.makedirs("a/b/c")
    open("a/b/c/file", "w").close()
    for folder in ("a/b/c", "a/b", "a"):
        os.fchmod(os.open(folder, os.O_RDONLY), 0)


def endless_output():
    while True:
        os.write(1, b"x" * 65536)


def endless_errors():
    while True:
        os.write(2, b"x" * 65536)


def ignored_signals():
    for s in range(1, 65):
        try:
            signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def sleep_for_ever():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        time.sleep(60)


def closed_output():
    for fd in (0, 1, 2):
        os.close(fd)
    time.sleep(60)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)


def execute_itself():
    os.execv(sys.executable, [sys.executable] + sys.argv)


def daemonize(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            work()
        os._exit(0)


def daemons():
    for _ in range(5):
        daemonize(lambda: [os.closerange(0, 100), time.sleep(60)])
    time.sleep(0.1)


def daemon_with_output():
    daemonize(lambda: time.sleep(60))
    time.sleep(0.1)


def daemon_chain():
    def hop():
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                if os.fork():
                    os._exit(0)
                os.setsid()
            except OSError:
                pass
    daemonize(hop)
    time.sleep(0.1)


def crash():
    ctypes.string_at(8)


def symlink():
    os.symlink(tests, "link")
    attempt("read through a link", lambda: open("link").read())
    os.symlink("/", "root")
    attempt("list through a link", lambda: open("root" + tests).read())
    attempt("climb", lambda: open("../../../../../../../.." + tests).read())


def hard_link():
    attempt("hard link of the tests", os.link, tests, "hard")
    attempt("hard link of a system file", os.link, "/usr/bin/env", "hard2")
    attempt("rename", os.rename, tests, "mine")


def inherited_descriptors():
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        attempt("descriptor %d" % fd, lambda: os.pread(fd, 100, 0))
    for fd in range(0, 64):
        for way in ("/proc/self/fd/%d", "/dev/fd/%d"):
            try:
                path = os.readlink(way % fd)
            except OSError:
                continue
            if path.startswith("/") and not path.startswith("/dev/null"):
                if not path.startswith(os.getcwd()):
                    escaped(way % fd, path)


def proc_of_others():
    for pid in (1, os.getppid(), owner):
        for what in ("root" + tests, "cwd/../../../../../.." + tests, "environ", "mem", "maps"):
            path = "/proc/%d/%s" % (pid, what)
            if pid == os.getpid() and what in ("mem", "maps", "environ"):
                continue
            try:
                text = open(path, "rb").read(100)
            except OSError:
                continue
            if pid != 1 or b"SECRET" in text:
                escaped(path, text)
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/proc/sys/kernel/hostname"):
        attempt("write " + path, lambda: open(path, "w").write("-1"))


def read_the_tests():
    attempt("read the tests", lambda: open(tests).read())
    attempt("list their folder", os.listdir, os.path.dirname(tests))
    attempt("list all folders", os.listdir, "/tmp/.." + os.path.dirname(tests))
    for folder in ("/root", "/home", "/var", "/work/main", "/sys", "/run"):
        try:
            found = os.listdir(folder)
        except OSError:
            continue
        if found:
            escaped("list", folder, found)


def write_the_reward():
    for mode in ("w", "a", "r+"):
        attempt("write the reward", lambda: open(reward, mode).write("1"))
    attempt("remove the reward", os.unlink, reward)
    attempt("truncate the reward", os.truncate, reward, 0)
    attempt("chmod", os.chmod, reward, 0)
    attempt("chown", os.chown, reward, os.getuid(), os.getgid())
    attempt("utime", os.utime, reward, (1, 1))


def read_accounts():
    for path in ("/etc/shadow", "/etc/hosts", "/etc/ssh/sshd_config", "/root/.bashrc", "/etc/machine-id", "/etc/fstab"):
        attempt("read " + path, lambda: open(path).read())
    try:
        if len(open("/etc/passwd").read().splitlines()) > 1:
            escaped("the machine's accounts")
    except OSError:
        pass


def write_the_system():
    for path in ("/usr/escaped", "/usr/bin/escaped", "/bin/escaped", "/etc/escaped", "/escaped", "/dev/escaped", "/lib/escaped"):
        attempt("write " + path, lambda: open(path, "w").close())
    attempt("append to a program", lambda: open("/usr/bin/env", "ab").close())
    attempt("chmod a program", os.chmod, "/usr/bin/env", 0o777)
    attempt("remove a program", os.unlink, "/usr/bin/env")


def devices():
    for path in ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/sda", "/dev/vda", "/dev/ptmx", "/dev/tty", "/dev/fuse", "/dev/loop0", "/dev/zero"):
        for flags in (os.O_RDONLY, os.O_RDWR):
            attempt("open " + path, os.open, path, flags)
    attempt("make a device", os.mknod, "device", 0o60666, os.makedev(254, 0))
    attempt("make a device", os.mknod, "device", 0o20666, os.makedev(1, 1))


def set_user_id():
    for path in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newuidmap"):
        if not os.path.exists(path):
            continue
        pid = os.fork()
        if pid == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.execv(path, [path, "-c", "id"])
        _, status = os.waitpid(pid, 0)
    for uid in (0, 1, 1000, 65534):
        if uid != os.getuid():
            attempt("become user %d" % uid, os.setuid, uid)
    attempt("drop groups", os.setgroups, [])
    try:
        lines = list(open("/proc/self/status"))
    except OSError:
        return
    for line in lines:
        if line.startswith("Cap") and int(line.split()[1], 16) or line.startswith("NoNewPrivs") and line.split()[1] != "1":
            escaped(line)


def environment_secrets():
    for k, v in os.environ.items():
        if "SECRET" in v or k.startswith("TRINITY"):
            escaped(k, v)
    for pid in (1, os.getpid(), os.getppid()):
        try:
            text = open("/proc/%d/environ" % pid, "rb").read()
        except OSError:
            continue
        if b"SECRET" in text or b"TRINITY" in text:
            escaped("environ of", pid)


def sockets():
    for family in range(0, 46):
        for kind in (1, 2, 3, 5):
            for protocol in (0, 1, 6, 17, 255, 262):
                try:
                    socket.socket(family, kind, protocol)
                except OSError as e:
                    if e.errno != errno.EPERM:
                        escaped("family", family, e)
                    continue
                escaped("family", family, kind, protocol)


def unix_sockets():
    a, b = socket.socketpair()  # a pair of one's own is harmless
    a.send(b"x")
    attempt("datagram pair", socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
    attempt("datagram pair, other half of the argument", lambda: [1 / (0 if denied("pair", (53, 199), 1, 2 | 1 << 32, 0, ctypes.byref((ctypes.c_int * 2)()))
                                                                       < 0 else 1)])
    attempt("connect to an abstract socket", a.connect, "\0x")
    attempt("connect to a socket", a.connect, "/run/docker.sock")
    attempt("bind", a.bind, "socket")


def clone3():
    class Arguments(ctypes.Structure):
        _fields_ = [(n, ctypes.c_uint64) for n in "flags pidfd child_tid parent_tid exit_signal stack stack_size tls".split()]
    arguments = Arguments(flags=0x10000000, exit_signal=17)
    pid = denied("clone3", 435, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)


def new_namespaces():
    for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000):
        denied("unshare", (272, 97), flag)
        pid = denied("clone", (56, 220), flag | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
    denied("setns", (308, 268), 0, 0)


def mounts():
    denied("mount", (165, 40), b"tmpfs", b"/tmp", b"tmpfs", 0, None)
    denied("umount", (166, 39), b"/usr", 2)
    denied("chroot", (161, 51), b"/tmp")
    denied("pivot_root", (155, 41), b"/tmp", b"/tmp")
    denied("open_tree", 428, -100, b"/", 1)
    denied("move_mount", 429, -100, b"/", -100, b"/tmp", 0)
    denied("fsopen", 430, b"tmpfs", 0)
    denied("mount_setattr", 442, -100, b"/", 0, None, 0)
    denied("open_by_handle_at", (304, 265), -100, None, 0)


def io_uring():
    denied("io_uring_setup", 425, 8, ctypes.byref((ctypes.c_char * 256)()))
    denied("io_uring_enter", 426, 0, 0, 0, 0, None, 0)
    denied("io_uring_register", 427, 0, 0, None, 0)


def other_kernel_parts():
    denied("bpf", (321, 280), 0, None, 0)
    denied("perf_event_open", (298, 241), None, 0, -1, -1, 0)
    denied("userfaultfd", (323, 282), 1)
    denied("keyctl", (250, 219), 0, -3, 1)
    denied("add_key", (248, 217), b"user", b"x", b"y", 1, -3)
    denied("init_module", (175, 105), None, 0, b"")
    denied("kexec_load", (246, 104), 0, 0, None, 0)
    denied("reboot", (169, 142), 0, 0, 0, None)
    denied("settimeofday", (164, 170), None, None)
    denied("syslog", (103, 116), 3, None, 0)
    denied("fanotify_init", (300, 262), 0, 0)
    denied("swapon", (167, 224), b"/x", 0)
    denied("a call that does not exist", 1000)


def trace():
    for pid in (1, os.getppid(), owner):
        denied("ptrace", (101, 117), 16, pid, 0, 0)
        denied("process_vm_readv", (310, 270), pid, None, 0, None, 0, 0)
        denied("pidfd_getfd", 438, 0, 0, 0)


def signal_others():
    for pid in (owner, os.getppid(), -owner):
        if pid in (0, -0) or pid == os.getpid():
            continue
        for s in (0, signal.SIGTERM, signal.SIGKILL):
            attempt("signal %d to %d" % (s, pid), os.kill, pid, s)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        os.kill(-1, signal.SIGTERM)
    except OSError:
        pass


def name_others():
    """Make every call that takes the id of a process, with that of another one and an effect that harms nobody."""
    import fcntl
    buffer = ctypes.create_string_buffer(4096)
    at = ctypes.byref
    wants = (errno.EPERM, errno.ENOSYS, errno.ESRCH)  # in namespaces there is no such process

    def kept(what, number, *arguments):
        denied(what, number, *arguments, wants=wants)

    for pid in {owner, os.getppid()} - {0, os.getpid()}:
        for high in (0, 1 << 32):  # the kernel reads the low half
            p, minus = pid | high, ~pid << 3
            for of in range(16):
                old = (ctypes.c_uint64 * 2)()
                kept("prlimit64, read %d" % of, (302, 261), p, of, None, old)
            if not any(old):
                old[:] = [1024, 1 << 20]
            kept("prlimit64", (302, 261), p, 7, old, None)
            for sign in (0, 18):
                kept("kill", (62, 129), p, sign)
                kept("tkill", (200, 130), p, sign)
                kept("tgkill", (234, 131), p, p, sign)
                kept("rt_sigqueueinfo", (129, 138), p, sign, buffer)
                kept("rt_tgsigqueueinfo", (297, 240), p, p, sign, buffer)
            kept("pidfd_open", 434, p, 0)
            for which in range(3):
                kept("setpriority %d" % which, (141, 140), which, p, 19)
                kept("getpriority %d" % which, (140, 141), which, p)
            for which in range(1, 4):
                kept("ioprio_set %d" % which, (251, 30), which, p, 0)
                kept("ioprio_get %d" % which, (252, 31), which, p)
            kept("sched_getaffinity", (204, 123), p, 4096, buffer)
            kept("sched_setaffinity", (203, 122), p, 8, at(ctypes.c_uint64(-1)))
            kept("sched_getparam", (143, 121), p, buffer)
            kept("sched_setparam", (142, 118), p, at(ctypes.c_int(0)))
            kept("sched_getscheduler", (145, 120), p)
            kept("sched_setscheduler", (144, 119), p, 0, at(ctypes.c_int(0)))
            kept("sched_getattr", (315, 275), p, buffer, 48, 0)
            kept("sched_setattr", (314, 274), p, at((ctypes.c_uint32 * 12)(48)), 0)
            kept("sched_rr_get_interval", (148, 127), p, buffer)
            kept("ptrace", (101, 117), 16, p, 0, 0)
            kept("process_vm_readv", (310, 270), p, None, 0, None, 0, 0)
            kept("process_vm_writev", (311, 271), p, None, 0, None, 0, 0)
            kept("kcmp", (312, 272), p, p, 0, 0, 0)
            kept("kcmp, the other one", (312, 272), os.getpid(), p, 0, 0, 0)
            kept("migrate_pages", (256, 238), p, 0, None, None)
            kept("move_pages", (279, 239), p, 0, None, None, None, 0)
            kept("setpgid", (109, 154), p, 0)
            kept("setpgid, the group", (109, 154), 0, p)
            kept("getpgid", (121, 155), p)
            kept("getsid", (124, 156), p)
            kept("get_robust_list", (274, 100), p, buffer, at(ctypes.c_size_t()))
            kept("capget", (125, 90), at((ctypes.c_uint32 * 2)(0x20080522, pid)), buffer)
            kept("prctl PR_SCHED_CORE", (157, 167), 62, 2, p, 1, 0)
            kept("perf_event_open", (298, 241), at((ctypes.c_uint32 * 32)(1, 128)), p, -1, -1, 0)
        for kind in range(3):
            clock = minus | kind
            for half in (clock, clock & (1 << 32) - 1):
                denied("clock_gettime", (228, 113), half, buffer, wants=wants + (errno.EINVAL,))
                denied("clock_getres", (229, 114), half, buffer, wants=wants + (errno.EINVAL,))
                denied("clock_nanosleep", (230, 115), half, 0, buffer, None, wants=wants + (errno.EINVAL,))
                denied("timer_create", (222, 107), half, None, at(ctypes.c_int()), wants=wants + (errno.EINVAL,))
        r, w = os.pipe()
        a, b = socket.socketpair()
        for high in (0, 1 << 32):
            for target in (pid, -pid):
                denied("F_SETOWN", (72, 25), r, 8 | high, target, wants=wants)
                denied("F_SETOWN_EX", (72, 25), r, 15 | high, at((ctypes.c_int * 2)(1, target)), wants=wants)
                denied("FIOSETOWN", (16, 29), a.fileno(), 0x8901 | high, at(ctypes.c_int(target)), wants=wants)
                denied("SIOCSPGRP", (16, 29), a.fileno(), 0x8902 | high, at(ctypes.c_int(target)), wants=wants)
    for which in (1, 2):  # 0 is the whole group, and the whole user
        if os.getpid() != 1:
            denied("setpriority of others, 0", (141, 140), which, 0, 19)
            denied("ioprio_set of others, 0", (251, 30), which + 1, 0, 0)


def act_on_itself():
    """Make the calls that programs make about themselves, which still work."""
    import subprocess
    import time
    resource.prlimit(0, resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    os.sched_getaffinity(0)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.sched_getscheduler(0)
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1)
    os.getpgrp()
    os.getpgid(0)
    time.process_time()
    time.thread_time()
    time.clock_gettime(time.CLOCK_MONOTONIC)
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()
    text = subprocess.run(["timeout", "3", "sh", "-c", "echo out | cat; nice true"], capture_output=True, text=True)
    if text.returncode or text.stdout != "out\n":
        escaped(text)


def outlive_the_run():
    denied("prctl", (157, 167), 1, 0, 0, 0, 0)
    denied("prctl, other half of the argument", (157, 167), 1 | 1 << 32, 0, 0, 0, 0)
    denied("prctl, negative", (157, 167), -(1 << 32) + 1, 0, 0, 0, 0)


def raise_limits():
    for of in ("AS", "DATA", "CPU", "FSIZE", "NPROC", "NOFILE", "CORE", "MEMLOCK", "STACK"):
        of = getattr(resource, "RLIMIT_" + of)
        soft, hard = resource.getrlimit(of)
        if hard == resource.RLIM_INFINITY:
            escaped("no limit", of)
        attempt("raise", resource.setrlimit, of, (soft, resource.RLIM_INFINITY))
        attempt("raise", resource.setrlimit, of, (hard + 1, hard + 1))
        attempt("raise by prlimit", resource.prlimit, 0, of, (hard + 1, hard + 1))


def other_architectures():
    if platform.machine() != "x86_64":
        return
    denied("socket of x32", 0x40000000 | 41, 2, 1, 0)
    # socket(AF_INET, SOCK_STREAM, 0) of i386
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x02\x00\x00\x00\xb9\x01\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if function() >= 0:
        escaped("socket of i386")


def terminal():
    import fcntl
    import termios
    for fd in (0, 1, 2):
        attempt("type into the terminal", fcntl.ioctl, fd, termios.TIOCSTI, b"x")
    attempt("open the terminal", os.open, "/dev/tty", os.O_RDWR)


globals()[name]()
print("held", flush=True)
