package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Roles of this binary as a child process.
const (
	supervisor = "supervise"
	limiter    = "limit"
)

func init() {
	Role(supervisor, supervise)
	Role(limiter, limit)
}

// command returns the command that starts a supervisor for the program at path.
func (p *Program) command(ctx context.Context, path string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"trinity-supervise", strconv.Itoa(os.Getpid()), strconv.FormatInt(p.MaxMemory, 10),
		strconv.Itoa(len(p.Files)), p.Scratch, strconv.FormatBool(p.Expendable), path}, p.Command...)
	cmd.Env = append(p.environment(), RoleVariable(append([]string{supervisor}, p.roles()...)...))
	cmd.Dir, cmd.ExtraFiles = p.Dir, p.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals of the terminal do not reach it
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// roles returns the roles of the supervisor's child.
func (p *Program) roles() (names []string) {
	if p.Role != "" {
		names = append(names, p.Role)
	}
	return names
}

// killGroup does nothing: the supervisor has killed what was left.
func killGroup(*exec.Cmd) {}

// supervise is the supervisor of one program. It returns the program's status, which is 128 plus
// the number of the signal that killed it.
func supervise() int {
	parent, _ := strconv.Atoi(os.Args[1])
	extra, _ := strconv.Atoi(os.Args[3])
	scratch, path, argv, env := os.Args[4], os.Args[6], os.Args[7:], os.Environ()
	if expendable, _ := strconv.ParseBool(os.Args[5]); expendable {
		endFirst()
	}
	if maxMemory := os.Args[2]; maxMemory != "0" {
		path, argv, env = "/proc/self/exe", append([]string{"trinity-limit", maxMemory, path}, argv...), roleOf(limiter)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "cannot supervise:", err)
		return 126
	}
	files := []uintptr{0, 1, 2} // and those of Program.Files
	for i := range extra {
		files = append(files, uintptr(3+i))
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 126
	}
	for _, fd := range append(files[3:], 0, 1) { // a program may close its own before it exits
		_ = syscall.Close(int(fd))
	}
	go func() {
		for alive := time.NewTicker(200 * time.Millisecond); os.Getppid() == parent; {
			select {
			case <-alive.C:
				continue
			case <-ended:
			}
			break
		}
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	var status syscall.WaitStatus
	for {
		if got, err := syscall.Wait4(-1, &status, 0, nil); got == pid || err != nil && err != syscall.EINTR {
			break
		}
	}
	killAll()
	if scratch != "" && os.Getppid() != parent { // who else would remove it
		if err := os.RemoveAll(scratch); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// limit limits the memory of this process and becomes the program. The supervisor cannot do so from
// outside: a program that runs may already have child processes, which keep the limit they have.
func limit() int {
	maxMemory, _ := strconv.ParseUint(os.Args[1], 10, 64)
	env := os.Environ()
	debug.SetGCPercent(-1) // Go ends a process that cannot map memory; a collection would
	err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: maxMemory, Max: maxMemory})
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[3:], env)
	}
	fmt.Fprintln(os.Stderr, "cannot start with a limit of memory:", err)
	return 126
}

// killAll kills the children of this process until none is left. A child's children become its own.
// It pauses only when it has found no child that is new, because a chain of processes that fork and
// exit must be caught between the two.
func killAll() {
	known := map[int]bool{}
	for end := time.Now().Add(ending / 2); time.Now().Before(end); {
		fresh := false
		for _, pid := range children(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			fresh = fresh || !known[pid]
			known[pid] = true
		}
		for {
			got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if got <= 0 && err != syscall.EINTR {
				break
			}
			fresh = true
		}
		if !fresh {
			time.Sleep(time.Millisecond)
		}
	}
}

// children returns the ids of a process's children, from the lists of its threads where the kernel
// has them (CONFIG_PROC_CHILDREN), which takes microseconds, else from all processes.
func children(parent int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, path := range lists {
		text, _ := os.ReadFile(path) // the thread may have ended
		for field := range bytes.FieldsSeq(text) {
			pid, _ := strconv.Atoi(string(field))
			pids = append(pids, pid)
		}
	}
	if lists != nil {
		return pids
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range files {
		text, _ := os.ReadFile(path)                                    // it may have ended
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // state, parent, …
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}
