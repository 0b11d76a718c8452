package trinitytest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/bridge"
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
	python := map[string]any{"path": []any{dir}}
	maps.Copy(python, section)
	if args == nil {
		args = map[string]any{}
	}
	return map[string]any{"class": class, "args": args, "python": python}
}

// AllowPython lets plug-ins run code of users, as a command does. Without python3 it calls [Missing].
func AllowPython(t testing.TB) {
	t.Helper()
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		Missing(t, "there is no python3")
	}
}
