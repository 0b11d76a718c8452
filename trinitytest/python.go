package trinitytest

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/python"
)

// Python returns the Python that a variable such as TRINITY_PYTHON names. If there is none, or if it
// lacks one of the modules, it calls [Missing].
func Python(t testing.TB, variable string, modules ...string) string {
	t.Helper()
	python := os.Getenv(variable)
	if python == "" {
		Missing(t, variable+" does not name a Python with "+strings.Join(modules, " and "))
	}
	const find = "import sys, importlib.util as u; print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])"
	out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", find}, modules...)...).Output()
	if err != nil {
		t.Fatalf("%s=%s: %v", variable, python, err)
	}
	if missing := strings.TrimSpace(string(out)); missing != "" {
		Missing(t, variable+"="+python+" lacks the modules: "+missing)
	}
	return python
}

// listClasses prints the classes that the modules below a package of an installed trinity-rft define, and those
// modules that cannot be imported.
const listClasses = `
import importlib, inspect, os, sys
from trinity_go import compat
compat.install()
package = sys.argv[1]
root = importlib.import_module(package).__path__[0]
for folder, _, files in os.walk(root):
    for file in files:
        if file.endswith(".py") and file != "__init__.py":
            name = os.path.relpath(os.path.join(folder, file), root)[:-3].replace(os.sep, ".")
            try:
                module = importlib.import_module(package + "." + name)
            except ImportError:
                print(name)
                continue
            for cls, value in inspect.getmembers(module, inspect.isclass):
                if value.__module__ == module.__name__:
                    print(name + "." + cls)
`

// EveryClass checks that each class below a package of the trinity-rft of an interpreter is one of those that a test
// compares, or stands in leftOut with its reason, and that no other one does. A module that cannot be imported
// stands for its classes. Names are those below the package.
func EveryClass(t *testing.T, interpreter, below string, compared []string, leftOut map[string]string) {
	t.Helper()
	dir := t.TempDir()
	_, modules, err := python.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range modules {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", listClasses, below)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	there := strings.Fields(string(out))
	for _, name := range there {
		if _, left := leftOut[name]; left == slices.Contains(compared, name) {
			t.Errorf("%s.%s: want it either compared or left out with a reason", below, name)
		}
	}
	for _, name := range slices.AppendSeq(slices.Clone(compared), maps.Keys(leftOut)) {
		if !slices.Contains(there, name) {
			t.Errorf("%s has no %s", below, name)
		}
	}
}

// TorchPython returns the Python of tests with real PyTorch workers, or calls [Missing].
func TorchPython(t testing.TB) string {
	t.Helper()
	return Python(t, "TRINITY_TORCH_PYTHON", "torch", "transformers", "peft", "safetensors")
}

// PythonClass returns the arguments of a plug-in python for a class of testdata/python, or of a module that its interpreter
// finds. section lies over the section python. Without python3 it calls [Missing].
func PythonClass(t testing.TB, class string, args, section map[string]any) map[string]any {
	t.Helper()
	AllowPython(t)
	dir, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]any{"path": []any{dir}}
	maps.Copy(of, section)
	if args == nil {
		args = map[string]any{}
	}
	return map[string]any{"class": class, "args": args, "python": of}
}

// AllowPython lets plug-ins run code of users, as a command does. Without python3 it calls [Missing].
func AllowPython(t testing.TB) {
	t.Helper()
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		Missing(t, "there is no python3")
	}
}

// CompatPython returns the Python of tests with classes of Trinity-RFT as they are, or calls [Missing]. They are required
// every night, so with TRINITY_HEAVY=1 they fail without it.
func CompatPython(t testing.TB, modules ...string) string {
	t.Helper()
	const variable = "TRINITY_COMPAT_PYTHON"
	if os.Getenv(variable) == "" && EffortFor() == Heavy {
		t.Fatal("TRINITY_HEAVY=1 requires " + variable + ", which this prints: " +
			"bash .ci/python bench/peers/requirements-compat.txt trinity-rft==0.6.0")
	}
	return Python(t, variable, append([]string{"torch", "trinity"}, modules...)...)
}
