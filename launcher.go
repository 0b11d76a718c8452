package trinity

import (
	"context"
	"io"
)

// Launcher is the plug-in that starts groups of processes on the machines of a run
// (cluster.launcher).
type Launcher interface {
	// Launch starts a group, or asks a scheduler for it, and returns. The processes announce themselves
	// to the driver, so nothing waits for them here. The end of ctx ends the asking, unless that would
	// leave a group that nobody knows.
	Launch(ctx context.Context, g ProcessGroup) (Launched, error)
	// Render returns what Launch would run, as a user would write it: commands, a script or a manifest.
	// It has no secrets.
	Render(g ProcessGroup) (string, error)
	// Reach returns the host under which the processes reach this one; "" is the loopback interface.
	Reach() string
	// GPUs returns how many GPUs each machine has; 0 if none, or if nothing here can know. The error says
	// that what knows does not answer.
	GPUs() (int, error)
	// Describe returns in words where the processes run.
	Describe() string
}

// ProcessGroup is a command that runs once on each of some machines.
type ProcessGroup struct {
	Name    string            // lower-case letters, digits and '-'; unique in the run
	Nodes   int               // machines
	GPUs    int               // of each machine
	Beside  string            // the group that has the same GPUs; "" gives the group its own
	Command []string          // with the group's files in its working directory
	Env     map[string]string // variables besides those of the machine
	Secret  map[string]string // variables that stand in no argument, file that others read, or log
	Files   map[string][]byte // by relative path with slashes
}

// Launched is a group that has been started.
type Launched interface {
	// Wait waits until no process of the group is left. The error says how it ended, as far as is known:
	// a program's exit status is not believed.
	Wait(ctx context.Context) error
	// Stop ends all processes, and waits until they are gone.
	Stop(ctx context.Context) error
	// Logs writes what the processes have printed so far.
	Logs(ctx context.Context, w io.Writer) error
}

// Scheduler is a Launcher whose groups outlive the process that asks for them: `trinity cluster`
// gives it a whole run.
type Scheduler interface {
	Launcher
	// Submit starts a run: a group whose command starts the driver on its first machine, and returns the
	// name by which the scheduler knows it.
	Submit(ctx context.Context, g ProcessGroup) (id string, err error)
	// Script returns what Submit would send.
	Script(g ProcessGroup) (string, error)
	// Status returns the state of a run in the scheduler's words, and whether it has ended.
	Status(ctx context.Context, id string) (state string, ended bool, err error)
	// Logs writes the output of a run. With follow, it waits for more until the run or ctx ends.
	Logs(ctx context.Context, id string, follow bool, w io.Writer) error
	// Down ends a run with all its groups.
	Down(ctx context.Context, id string) error
}

// Programs starts the programs of engines, such as workers and servers, on the machines of the run.
type Programs interface {
	// Start starts a program and waits until it answers, for cluster.start_timeout at most.
	Start(ctx context.Context, p Program) (Running, error)
}

// Program is a program of an engine. It runs once on each machine of its group.
type Program struct {
	Name   string // of the group
	Nodes  int    // machines; 0 is 1
	GPUs   int    // of each machine
	Beside string // the group whose GPUs it shares
	Python string // interpreter that starts and watches the program on its machine; it needs Python 3.10
	// Command may have the fields {host} and {port}, at which the program must listen, {rank} and {nodes},
	// and {master} and {master_port}, the first machine and a free port of it.
	Command []string
	// Modules are those of Python that the program needs, and Hint says what to do if one is missing.
	Modules []string
	Hint    string
	Answers string // path of a URL of the program on the first machine, which answers when it is ready
	// Ranks are the processes of a machine that divide its cores between them, unless OMP_NUM_THREADS is
	// set there; 0 leaves the threads to the program.
	Ranks  int
	Env    map[string]string
	Secret map[string]string
}

// Place says where the programs of an engine run.
type Place struct {
	Programs Programs
	Nodes    int    // machines
	GPUs     int    // of each machine; 0 if the programs compute on CPUs
	GPUBytes int64  // memory of each GPU; 0 if the configuration does not say
	Ranks    int    // processes of each machine
	Beside   string // the group whose GPUs they share; "" if they have their own
}

// Running is a program that has answered.
type Running interface {
	// Address is HOST:PORT of the program on the first machine.
	Address() string
	// Gone is closed when the group has ended, or a part of it.
	Gone() <-chan struct{}
	// Err says why, once Gone is closed.
	Err() error
	// Stop ends the program on all machines.
	Stop(ctx context.Context) error
}
