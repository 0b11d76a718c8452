package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// Args are the arguments of plug-ins that start a program.
type Args struct {
	Command   []string          `yaml:"command" doc:"the program and its arguments, without a shell"`
	Env       map[string]string `yaml:"env" secret:"true" doc:"environment variables besides those of the run; the place for passwords"`
	MaxMemory int               `yaml:"max_memory_mb" range:"[0,)" doc:"MiB of address space for each of its processes (Linux only); 0: none"`
}

// Validate requires a program that exists.
func (a *Args) Validate() error {
	switch {
	case len(a.Command) == 0:
		return errors.New("command: name a program, such as [python3, score.py]")
	case a.MaxMemory > 0 && runtime.GOOS != "linux":
		return fmt.Errorf("max_memory_mb: not supported on %s: leave it out", runtime.GOOS)
	}
	for name, value := range a.Env {
		if err := CheckVariable(name, value); err != nil {
			return fmt.Errorf("env: %w", err)
		}
	}
	if _, err := exec.LookPath(a.Command[0]); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return nil
}

// CheckVariable returns an error unless programs can have an environment variable of this name and
// value.
func CheckVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
		return fmt.Errorf("%q is no environment variable: want a name without =, and a text", name)
	}
	return nil
}

// Program returns the program.
func (a *Args) Program() Program {
	return Program{Command: a.Command, Env: a.Env, MaxMemory: int64(a.MaxMemory) << 20, Foreign: true}
}

// String returns the command as one line.
func (a *Args) String() string { return strings.Join(a.Command, " ") }
