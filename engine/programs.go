package engine

import "context"

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
