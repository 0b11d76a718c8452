package trinity

// ProcessGroup is a command that runs once on each of some machines.
type ProcessGroup struct {
	Name    string            // lower-case letters, digits and '-'; unique in the run
	Nodes   int               // machines
	GPUs    int               // of each machine
	Beside  string            // the group that has the same GPUs; "" gives the group its own
	Command []string          // with the group's files in its working directory
	Env     map[string]string // variables that are added to the machine's
	Secret  map[string]string // variables that stand in no argument, file that others read, or log
	Files   map[string][]byte // by relative path with slashes
}
