package process

import (
	"os"
	"runtime"
)

// variable tells a child process that is this binary what it does instead of main.
const variable = "TRINITY_CHILD"

// role runs body and exits with its status in a child process that was started for the role. It is
// called while packages are initialised, so it holds in every binary that has this package.
func role(name string, body func() int) {
	if os.Getenv(variable) == name {
		os.Unsetenv(variable) // its own child processes have no role
		os.Exit(body())
	}
}

// roleOf returns the environment of a child process with a role.
func roleOf(name string) []string { return append(os.Environ(), variable+"="+name) }

// self returns the path of this binary, which may have been replaced since it started.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}
