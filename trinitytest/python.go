package trinitytest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Python returns the Python that TRINITY_PYTHON names. It skips the test if there is none, or if it
// lacks one of the modules.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	python := os.Getenv("TRINITY_PYTHON")
	if python == "" {
		t.Skipf("TRINITY_PYTHON does not name a Python with %s", strings.Join(modules, " and "))
	}
	const find = "import sys, importlib.util as u; print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])"
	out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", find}, modules...)...).Output()
	if err != nil {
		t.Fatalf("TRINITY_PYTHON=%s: %v", python, err)
	}
	if missing := strings.TrimSpace(string(out)); missing != "" {
		t.Skipf("TRINITY_PYTHON=%s lacks the modules: %s", python, missing)
	}
	return python
}
