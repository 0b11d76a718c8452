// Package launcher holds the plug-ins that start the programs of engines on the machines of a run
// (cluster.launcher).
package launcher

import (
	"context"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Launchers are the plug-ins that start programs on the machines of a run.
var Launchers = registry.New[Launcher]("launcher", "where the programs of engines are started (cluster.launcher)")

// Launcher is the plug-in that starts groups of processes on the machines of a run
// (cluster.launcher).
type Launcher interface {
	// Launch starts a group, or asks a scheduler for it, and returns. The processes announce themselves
	// to the driver, so nothing waits for them here. The end of ctx ends the asking, unless that would
	// leave a group that nobody knows.
	Launch(ctx context.Context, g trinity.ProcessGroup) (Launched, error)
	// Render returns what Launch would run, as a user would write it: commands, a script or a manifest.
	// It has no secrets.
	Render(g trinity.ProcessGroup) (string, error)
	// Reach returns the host under which the processes reach this one; "" is the loopback interface.
	Reach() string
	// GPUs returns how many GPUs each machine has; 0 if none, or if nothing here can know. The error says
	// that what knows does not answer.
	GPUs() (int, error)
	// Describe returns in words where the processes run.
	Describe() string
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
	Submit(ctx context.Context, g trinity.ProcessGroup) (id string, err error)
	// Script returns what Submit would send.
	Script(g trinity.ProcessGroup) (string, error)
	// Status returns the state of a run in the scheduler's words, and whether it has ended.
	Status(ctx context.Context, id string) (state string, ended bool, err error)
	// Logs writes the output of a run. With follow, it waits for more until the run or ctx ends.
	Logs(ctx context.Context, id string, follow bool, w io.Writer) error
	// Down ends a run with all its groups.
	Down(ctx context.Context, id string) error
}
