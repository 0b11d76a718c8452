package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/trinity-go/trinity/internal/process"
)

func init() { process.Role(role, child) }

// child confines this process and becomes the program. It returns only if it cannot.
func child() int {
	runtime.LockOSThread() // some of what follows holds for one thread, which is the one that becomes the program
	status := os.NewFile(4, "status")
	if err := become(os.NewFile(3, "job"), status); err != nil {
		if _, unread := fmt.Fprint(status, err); unread != nil { // nobody started it as a sandbox
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	return 0
}

func become(in, status *os.File) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("this process is for the sandbox of a run: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("cannot close inherited files: %w", err)
	}
	if err := j.changeUser(); err != nil {
		return err
	}
	if err := dieWithParent(in); err != nil {
		return err
	}
	others := 0
	if j.With.Namespaces {
		if err := j.changeRoot(); err != nil {
			return fmt.Errorf("%s: %w", namespaces, err)
		}
	} else {
		others = threadsOf(os.Geteuid())
	}
	if err := writeFiles(j.Work, j.Files); err != nil {
		return err
	}
	if err := os.Chdir(j.Work); err != nil {
		return err
	}
	path := ""
	if !j.Probe {
		var err error
		if path, err = lookUp(j.Command[0], j.Env); err != nil {
			return err
		}
	}
	if j.With.Namespaces {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("cannot drop capabilities: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if j.With.Landlock {
		if err := j.restrictPaths(); err != nil {
			return fmt.Errorf("%s: %w", landlocked, err)
		}
	}
	if j.With.Seccomp {
		if err := filterCalls(j.With); err != nil {
			return fmt.Errorf("%s: %w", filtered, err)
		}
	}
	if _, err := status.WriteString("ok"); err != nil || j.Probe {
		return err
	}
	image, err := newImage(path, j.Command, j.Env)
	if err != nil {
		return err
	}
	// From here on this process may have less memory than Go needs, so the way to the program allocates none.
	debug.SetGCPercent(-1)
	if err := j.Limits.set(others); err != nil {
		return fmt.Errorf("%s: %w", limited, err)
	}
	return fmt.Errorf("cannot start %s: %w", path, image.become())
}

// image is a program with its arguments and variables as the kernel wants them.
type image struct {
	path      *byte
	argv, env []*byte
}

func newImage(path string, argv, env []string) (i image, err error) {
	if i.path, err = syscall.BytePtrFromString(path); err != nil {
		return i, err
	}
	if i.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return i, err
	}
	i.env, err = syscall.SlicePtrFromStrings(env)
	return i, err
}

// become replaces this process by the program. It returns only if it cannot. It allocates nothing,
// unlike syscall.Exec.
func (i image) become() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(i.path)), uintptr(unsafe.Pointer(&i.argv[0])),
		uintptr(unsafe.Pointer(&i.env[0])))
	return errno
}

// closeOnExec keeps every descriptor but the standard ones from the program, also those that this
// binary has inherited.
func closeOnExec() error {
	err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd := 0
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return err
}

// changeUser becomes the user of the sandbox, where namespaces do not give it one.
func (j *job) changeUser() error {
	if j.User == 0 {
		return nil
	}
	err := syscall.Setgroups(nil)
	if err == nil {
		err = syscall.Setresgid(j.User, j.User, j.User)
	}
	if err == nil {
		err = syscall.Setresuid(j.User, j.User, j.User)
	}
	if err != nil {
		return fmt.Errorf("cannot become user %d: %w", j.User, err)
	}
	return nil
}

// dieWithParent lets the kernel kill this process when its parent ends, which may just have happened:
// then nobody holds the other end of in.
func dieWithParent(in *os.File) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	poll := []unix.PollFd{{Fd: int32(in.Fd())}}
	if _, err := unix.Poll(poll, 0); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if poll[0].Revents&unix.POLLHUP != 0 {
		return errors.New("the run has ended")
	}
	return nil
}

// lookUp finds the program as the program's own environment says.
func lookUp(name string, env []string) (string, error) {
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			os.Setenv("PATH", path)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", err
	}
	return path, nil
}

// dropCapabilities gives up what the first user of a user namespace may do in it, for good.
func dropCapabilities() error {
	for c := uintptr(0); c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // there are no more
		} else if err != nil {
			return err
		}
	}
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 // SECBIT_NOROOT, NO_SETUID_FIXUP, both locked; KEEP_CAPS_LOCKED
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	return unix.Capset(&header, &none[0])
}

// threadsOf counts the threads of a user's other processes, which count towards the limit of
// processes outside of a user namespace of their own.
func threadsOf(user int) int {
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	n, own := 0, fmt.Sprintf("/proc/%d/", os.Getpid())
	for _, path := range tasks {
		var stat unix.Stat_t
		if !strings.HasPrefix(path, own) && unix.Stat(path, &stat) == nil && int(stat.Uid) == user {
			n++
		}
	}
	return n
}

// room is the address space of a process beyond its memory: for code, reserved ranges and files.
const room = 4 << 30

// set sets the limits of this process, which the program and its processes inherit. others counts
// processes of the user that are not the program's.
func (l *Limits) set(others int) error {
	cpu := uint64((l.CPU + 1e9 - 1) / 1e9)
	now := new(unix.Rlimit) // one for all: a new one might find no memory
	for _, limit := range []struct {
		of        int
		soft, max uint64
	}{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_MSGQUEUE, 0, 0},
		{unix.RLIMIT_MEMLOCK, 64 << 10, 64 << 10},
		{unix.RLIMIT_NOFILE, 1024, 1024},
		{unix.RLIMIT_SIGPENDING, 1024, 1024},
		{unix.RLIMIT_STACK, 8 << 20, 64 << 20},
		{unix.RLIMIT_FSIZE, uint64(l.File), uint64(l.File)},
		{unix.RLIMIT_CPU, cpu, cpu + 1},
		{unix.RLIMIT_NPROC, uint64(l.Processes + others), uint64(l.Processes + others)},
		{unix.RLIMIT_AS, uint64(l.Memory + room), uint64(l.Memory + room)},
		{unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
	} {
		if err := unix.Getrlimit(limit.of, now); err != nil {
			return err
		}
		now.Max = min(now.Max, limit.max)
		now.Cur = min(now.Max, limit.soft)
		if err := unix.Setrlimit(limit.of, now); err != nil {
			return err
		}
	}
	return nil
}
