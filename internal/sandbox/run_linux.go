package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trinity-go/trinity/internal/process"
)

// role is this binary's role as the child that confines itself.
const role = "sandbox"

// job is what the child reads from descriptor 3. It writes to descriptor 4: "ok" when it is
// confined, then why it cannot become the program, if so.
type job struct {
	Command, Env []string
	Files        map[string][]byte
	Read         []readable
	Folders      []string
	Limits       Limits
	With         layers
	Work         string // the work folder; "." is the working directory, which its user may not reach by a path
	User         int    // on 0, it keeps its user
	Probe        bool   // it exits instead of becoming the program
}

// readable is a file or folder that the program may read at a path.
type readable struct{ Path, Real string }

// run runs the program in namespaces if the sandbox has them, else below a supervisor.
func (s *Sandbox) run(parent context.Context, p *Program) (r Result, err error) {
	return s.start(parent, p, false)
}

func (s *Sandbox) start(parent context.Context, p *Program, probe bool) (r Result, err error) {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	if len(p.Folders) > 0 && !s.with.Namespaces {
		return r, errNoFolders
	}
	j := job{Command: p.Command, Files: p.Files, Folders: p.Folders, Limits: p.Limits, With: s.with, Work: workFolder, Probe: probe}
	for _, path := range p.Read {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return r, err
		}
		j.Read = append(j.Read, readable{filepath.Clean(path), real})
	}
	var pipes pipes
	if err := pipes.open(); err != nil {
		return r, err
	}
	defer pipes.close()
	var cmd *exec.Cmd
	home, tmp := workFolder, "/tmp"
	if s.with.Namespaces {
		runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
		defer runtime.UnlockOSThread()
		cmd, err = namespaced(ctx, &pipes)
	} else {
		var end func()
		cmd, end, err = supervised(ctx, &j, &pipes)
		defer end()
		if err == nil {
			home, tmp = cmd.Dir, cmd.Dir
		}
	}
	if err != nil {
		return r, err
	}
	j.Env = append([]string{"PATH=" + Path, "HOME=" + home, "TMPDIR=" + tmp, "LANG=C.UTF-8"}, p.Env...)
	cmd.Stdin = bytes.NewReader(p.Stdin)
	var group *cgroup
	r, err = watch(ctx, stop, cmd, p.Limits, func() error {
		pipes.started()
		// The program may write too much, which ends ctx, before this process knows that it has started.
		setup, cancel := context.WithTimeoutCause(parent, patience, fmt.Errorf("the program did not start within %v", patience))
		defer cancel()
		if s.with.Namespaces && s.with.Cgroup {
			var err error
			if group, err = newCgroup(p.Limits, cmd.Process.Pid); err != nil {
				return err
			}
		}
		return pipes.handOver(setup, &j)
	})
	if group != nil {
		r.OutOfMemory = group.close()
	}
	if err != nil {
		return r, mend(err)
	}
	r.interpret(cmd.ProcessState, p.Limits, s.with.Namespaces)
	return r, nil
}

// interpret reads the signal of the program from the status of its process or of its supervisor.
func (r *Result) interpret(state *os.ProcessState, limits Limits, direct bool) {
	status := state.Sys().(syscall.WaitStatus)
	signal := syscall.Signal(0)
	switch code := status.ExitStatus(); {
	case status.Signaled():
		signal = status.Signal()
	case !direct && code > 128 && code < 128+65: // the supervisor's words for a signal
		signal = syscall.Signal(code - 128)
	}
	if signal == 0 {
		return
	}
	r.ExitCode, r.Signal = -1, unix.SignalName(signal)
	if signal == unix.SIGXCPU || signal == unix.SIGKILL && r.CPU >= limits.CPU {
		r.TimedOut = true
	}
}

// mend adds to an error what to do about it.
func mend(err error) error {
	if errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "/proc/self/exe") && os.Geteuid() == 0 {
		return fmt.Errorf("%w: a sandbox of root has a user of its own, who must be allowed to execute this binary (chmod o+rx)", err)
	}
	return err
}

// namespaced returns the command of a child that is the first process of new namespaces. Its end is
// the end of all their processes.
func namespaced(ctx context.Context, p *pipes) (*exec.Cmd, error) {
	user, err := freeUser()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"trinity-" + role}, []string{process.RoleVariable(role)}, "/", p.child()
	cmd.WaitDelay = 10 * time.Second
	group, own := user, user == os.Geteuid()
	if own {
		group = os.Getegid()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: user, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: group, Size: 1}},
		GidMappingsEnableSetgroups: !own,
		Credential:                 &syscall.Credential{NoSetGroups: own},
	}
	return cmd, nil
}

// supervised returns the command of a child that has a supervisor instead of namespaces, and a
// function that removes its work folder.
func supervised(ctx context.Context, j *job, p *pipes) (*exec.Cmd, func(), error) {
	place, err := newFolder()
	if err != nil {
		return nil, func() {}, err
	}
	j.Work = "."
	if confined := j.With.Landlock || j.With.Seccomp; confined && os.Geteuid() == 0 {
		if j.User, err = freeUser(); err == nil && j.User != 0 {
			err = errors.Join(os.Chmod(place.Dir, 0o711), os.Chown(place.work(), j.User, j.User))
		}
		if err != nil {
			return nil, place.remove, err
		}
	}
	of := process.Program{
		Command: []string{"trinity-" + role}, Role: role, Alone: true, Dir: place.work(), Scratch: place.Dir, Files: p.child(),
	}
	cmd, killRest, err := of.Cmd(ctx)
	if err != nil {
		return nil, place.remove, err
	}
	return cmd, func() { killRest(); place.remove() }, nil
}

// used counts the users that were taken.
var used atomic.Uint32

// freeUser returns the id of a user for one sandbox. Root takes users that nobody else has: root
// itself is not bound by the limit of processes. Everybody else has only its own.
func freeUser() (int, error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	const each = 1024 // of each process
	n := int(used.Add(1) % each)
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, err
	}
	highest, mapped, first := 0, 0, 1<<30+os.Getpid()%(1<<20)*each
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return 0, err
		}
		if inside <= first && first+each <= inside+size {
			return first + n, nil
		}
		highest = max(highest, inside+size)
		if inside == 0 {
			mapped = outside
		}
	}
	switch {
	case highest > 1:
		return max(1, highest-2-n), nil // below 65534, the user nobody, as whom other programs run
	case mapped == 0:
		return 0, errors.New("root has no other user in its user namespace, so nothing would limit a sandbox's processes")
	}
	return 0, nil // it is root in its user namespace alone
}

// pipes are the two pipes between this process and the child.
type pipes struct{ jobR, jobW, statusR, statusW *os.File }

func (p *pipes) open() (err error) {
	if p.jobR, p.jobW, err = os.Pipe(); err != nil {
		return err
	}
	if p.statusR, p.statusW, err = os.Pipe(); err != nil {
		p.close()
	}
	return err
}

// child returns the ends of the child, its descriptors 3 and 4.
func (p *pipes) child() []*os.File { return []*os.File{p.jobR, p.statusW} }

// started closes the ends of the child here.
func (p *pipes) started() {
	p.jobR.Close()
	p.statusW.Close()
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.jobR, p.jobW, p.statusR, p.statusW} {
		if f != nil {
			f.Close()
		}
	}
}

// handOver sends the job and waits until the child has become the program.
func (p *pipes) handOver(ctx context.Context, j *job) error {
	defer context.AfterFunc(ctx, func() {
		now := time.Now()
		_ = p.jobW.SetDeadline(now)
		_ = p.statusR.SetDeadline(now)
	})()
	sent := json.NewEncoder(p.jobW).Encode(j)
	said, err := io.ReadAll(io.LimitReader(p.statusR, 1<<16))
	switch why, ok := strings.CutPrefix(string(said), "ok"); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case !ok && why == "":
		return fmt.Errorf("the confining process ended without a word (%w)", errors.Join(sent, errors.New("it was killed, or could not start")))
	case why != "":
		return errors.New(why)
	}
	return nil
}
