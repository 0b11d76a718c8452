package trinitytest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
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
