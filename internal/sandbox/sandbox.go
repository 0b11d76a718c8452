package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Isolation says how much must hold a program back.
type Isolation string

// The isolations.
const (
	Full Isolation = "full" // namespaces, Landlock and seccomp, or an error that names what is missing
	Best Isolation = "best" // those of them that work here
	None Isolation = "none" // only limits
)

// Limits bound one run of a program. A limit of 0 is its default.
type Limits struct {
	Wall      time.Duration // from the start of the program to its end; 10 s
	CPU       time.Duration // of each process, in whole seconds; Wall
	Memory    int64         // bytes of each process, and of all with their files where a control group holds them; 512 MiB
	File      int64         // bytes of each file; 64 MiB
	Disk      int64         // bytes of all files, in namespaces; 128 MiB
	Output    int64         // bytes of standard output, and of standard error; 1 MiB
	Processes int           // processes and threads at once; 64
	Inodes    int           // files and directories, in namespaces; 10,000
}

// Path is PATH in a sandbox, on Linux.
const Path = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin"

// Program is a program with its input.
type Program struct {
	Command []string          // a program of the sandbox's PATH, or a path, and its arguments
	Env     []string          // added to PATH, HOME, TMPDIR and LANG; the environment of this process is not passed on
	Files   map[string][]byte // by path in the work folder, which is the working directory
	Read    []string          // files and folders of this machine that it may read, beside those of the system
	Folders []string          // empty folders that it may write, by absolute paths; they need namespaces
	Stdin   []byte
	Limits  Limits
}

// Result says how a program ended.
type Result struct {
	ExitCode       int    // -1 if a signal killed the program
	Signal         string // the signal that killed it, or ""
	Stdout, Stderr []byte
	Truncated      bool          // it wrote more than Limits.Output, and was killed
	TimedOut       bool          // it was killed at Limits.Wall or Limits.CPU
	OutOfMemory    bool          // its control group had no memory left; without one, allocations fail in the program
	CPU            time.Duration // of the program and the child processes that it waited for
}

// Sandbox runs programs. It is safe for concurrent use.
type Sandbox struct {
	with  layers
	lacks []string
}

// layers says which layers a sandbox uses.
type layers struct {
	Namespaces, Landlock, Seccomp, Cgroup bool
}

// Layer is one of the mechanisms that hold a program back, as found on this machine.
type Layer struct {
	Name  string `json:"name"`
	Gives string `json:"gives"`
	Works bool   `json:"works"`
	Note  string `json:"note"` // its version, or why it does not work
}

// Names of layers. [Full] needs all of them but the control group.
const (
	namespaces = "namespaces"
	landlocked = "landlock"
	filtered   = "seccomp"
	limited    = "limits"
	grouped    = "cgroup"
)

// New returns a sandbox. If isolation is Full, an error names the layers that this machine lacks.
func New(isolation Isolation) (*Sandbox, error) {
	s := &Sandbox{}
	switch isolation {
	case None:
		s.lacks = []string{namespaces, landlocked, filtered}
		return s, nil
	case Full, Best:
	default:
		return nil, fmt.Errorf("isolation %q: want %s, %s or %s", isolation, Full, Best, None)
	}
	var why []string
	for _, l := range Layers() {
		switch l.Name {
		case namespaces:
			s.with.Namespaces = l.Works
		case landlocked:
			s.with.Landlock = l.Works
		case filtered:
			s.with.Seccomp = l.Works
		case grouped:
			s.with.Cgroup = l.Works
			continue
		default:
			continue
		}
		if !l.Works {
			s.lacks = append(s.lacks, l.Name)
			why = append(why, l.Name+" ("+l.Note+")")
		}
	}
	missing := strings.Join(why, ", ")
	switch {
	case isolation == Full && missing != "":
		return nil, fmt.Errorf("isolation full: this machine lacks %s: make them available, or choose isolation best, which runs "+
			"programs without them", missing)
	case !s.with.Landlock && !s.with.Namespaces:
		return nil, fmt.Errorf("isolation best: nothing here keeps a program from the files of this machine: it lacks %s; isolation none "+
			"runs programs as they are", missing)
	}
	return s, nil
}

// Lacks returns the names of the layers of full isolation that the sandbox does without.
func (s *Sandbox) Lacks() []string { return s.lacks }

// Causes by which Run ends a program.
var (
	errTime   = errors.New("the program ran out of time")
	errOutput = errors.New("the program wrote too much")
)

// patience bounds the time from the start of the sandbox to the start of the program.
const patience = 30 * time.Second

// Run runs a program and returns once it and every process that it started have ended. An error is a
// failure of the sandbox or the end of ctx; whatever the program does is a result.
func (s *Sandbox) Run(ctx context.Context, p *Program) (Result, error) {
	whole, err := p.settled()
	if err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", err)
	}
	r, err := s.run(ctx, whole)
	if err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", err)
	}
	return r, nil
}

// taken are the folders of the root directory in which a program has no folders of its own.
var taken = []string{"", "usr", "bin", "sbin", "etc", "dev", "proc", "sys", "tmp", strings.TrimPrefix(workFolder, "/"), ".old"}

// workFolder is the work folder in namespaces.
const workFolder = "/work"

// CheckFolder returns an error unless a program can have a folder at this path.
func CheckFolder(path string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if path == filepath.Clean(path) && filepath.IsAbs(path) && !slices.Contains(taken, first) && !strings.HasPrefix(first, "lib") {
		return nil
	}
	return fmt.Errorf("%q cannot be a folder of a program: want an absolute path outside of the system's folders, such as /app", path)
}

// CheckRead returns an error unless programs can be given these files and folders to read.
func CheckRead(paths []string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
			return fmt.Errorf("read: %q is no absolute path of a file or folder", path)
		}
	}
	return nil
}

// errNoFolders is the error of a sandbox whose program asks for folders that it cannot have.
var errNoFolders = errors.New("the program asks for folders of its own, which need namespaces")

// settled returns the program with its defaults.
func (p *Program) settled() (*Program, error) {
	q := *p
	if len(q.Command) == 0 || q.Command[0] == "" {
		return nil, errors.New("the program has no command")
	}
	for name := range q.Files {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%q is no path in the work folder", name)
		}
	}
	for _, path := range q.Read {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%q: what a program may read is an absolute path", path)
		}
	}
	for _, path := range q.Folders {
		if err := CheckFolder(path); err != nil {
			return nil, err
		}
	}
	l := &q.Limits
	l.Wall = cmp.Or(l.Wall, 10*time.Second)
	l.CPU = cmp.Or(l.CPU, l.Wall)
	l.Memory = cmp.Or(l.Memory, 512<<20)
	l.File = cmp.Or(l.File, 64<<20)
	l.Disk = cmp.Or(l.Disk, 128<<20)
	l.Output = cmp.Or(l.Output, 1<<20)
	l.Processes = cmp.Or(l.Processes, 64)
	l.Inodes = cmp.Or(l.Inodes, 10_000)
	if min(int64(l.Wall), int64(l.CPU), l.Memory, l.File, l.Disk, l.Output, int64(l.Processes), int64(l.Inodes)) < 0 ||
		max(l.Memory, l.Disk) > math.MaxInt64/4 {
		return nil, errors.New("a limit is negative or too large")
	}
	return &q, nil
}

// watch starts cmd, whose context stop ends, and returns how the program ended. ready returns nil
// once the program has started.
func watch(ctx context.Context, stop context.CancelCauseFunc, cmd *exec.Cmd, limits Limits, ready func() error) (r Result, err error) {
	full := func() { stop(errOutput) }
	stdout, stderr := &output{most: limits.Output, full: full}, &output{most: limits.Output, full: full}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		return r, cmp.Or(context.Cause(ctx), err)
	}
	failed := ready()
	if failed != nil {
		stop(failed)
	}
	timer := time.AfterFunc(limits.Wall, func() { stop(errTime) })
	ended := cmd.Wait()
	timer.Stop()
	switch cause := context.Cause(ctx); {
	case failed != nil:
		return r, failed
	case errors.Is(ended, exec.ErrWaitDelay): // somebody still holds its output
		return r, errors.New("a process of the program could not be killed")
	case errors.Is(cause, errTime):
		r.TimedOut = true
	case errors.Is(cause, errOutput):
		r.Truncated = true
	case cause != nil:
		return r, cause
	case ended != nil && !errors.As(ended, new(*exec.ExitError)):
		return r, ended
	}
	r.Stdout, r.Stderr = stdout.data, stderr.data
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.ExitCode = cmd.ProcessState.ExitCode()
	return r, nil
}

// output keeps up to most bytes. It calls full when there are more.
type output struct {
	most int64
	data []byte
	full func()
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n := min(int64(len(p)), o.most-int64(len(o.data)))
	o.data = append(o.data, p[:n]...)
	if n < int64(len(p)) {
		o.full()
	}
	return len(p), nil
}
