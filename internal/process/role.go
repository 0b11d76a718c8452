package process

import (
	"os"
	"runtime"
	"strings"
)

// variable tells a child process that is this binary what it does instead of main.
const variable = "TRINITY_CHILD"

// Role runs body and exits with its status in a child process that was started for the role. It is
// called while packages are initialised, so it holds in every binary that has this package, and
// little of the binary has started.
func Role(name string, body func() int) {
	first, next, nested := strings.Cut(os.Getenv(variable), ",")
	if first != name {
		return
	}
	if nested {
		os.Setenv(variable, next)
	} else {
		os.Unsetenv(variable) // its own child processes have no role
	}
	os.Exit(body())
}

// RoleVariable returns the environment variable of a child process with a role. If it has several,
// the first is that of the child, the second that of the child's child.
func RoleVariable(names ...string) string { return variable + "=" + strings.Join(names, ",") }

// roleOf returns the environment of a child process with a role.
func roleOf(name string) []string { return append(os.Environ(), RoleVariable(name)) }

// Self returns the path of this binary, which may have been replaced since it started.
func Self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}
