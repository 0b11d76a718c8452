package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// The scripts of examples/python train, and what they print rises.
func TestPythonExamples(t *testing.T) {
	trinitytest.Long(t, "trains models", "examples/python", "python/trinity_go/trinity_go", "internal/bridge", "internal/process", "reward")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	program := builtProgram(t)
	scripts, err := filepath.Glob("python/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v, %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) { rises(t, python, program, script) })
	}
}

// The script with rewards in the form of TRL trains with a Python that has trl, torch and trinity-rft.
func TestCompatScript(t *testing.T) {
	python := trinitytest.CompatPython(t, "trl")
	rises(t, python, builtProgram(t), "python/trl_rewards.py")
}

func builtProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "trinity")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/trinity").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

var risen = regexp.MustCompile(`(?m)^(\S+): (\S+) at first, (\S+) after \d+ steps$`)

// rises runs a script, and checks that what it prints rises.
func rises(t *testing.T, python, program, script string) {
	t.Helper()
	packages, err := filepath.Abs("../python/trinity_go")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), python, script)
	run.Env = append(os.Environ(), "TRINITY_BINARY="+program, "PYTHONPATH="+packages, "TRINITY_CHECKPOINT_ROOT_DIR="+t.TempDir())
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := risen.FindAllStringSubmatch(string(out), -1)
	if lines == nil {
		t.Errorf("it says nothing that rises:\n%s", out)
	}
	for _, m := range lines {
		first, err1 := strconv.ParseFloat(m[2], 64)
		last, err2 := strconv.ParseFloat(m[3], 64)
		if err1 != nil || err2 != nil || last <= first {
			t.Error(m[0])
		}
	}
}
