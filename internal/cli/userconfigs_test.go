package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/cli"
	"github.com/trinity-go/trinity/trinitytest"
)

// Configurations of users that name Python are checked. What is missing has its line and its name.
func TestConfigsOfUsersThatNamePython(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "trinity_rft_configs", "examples")
	if _, err := os.Stat(root); err != nil {
		t.Skip("shared/data/trinity_rft_configs is not beside the repository")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	for file, wants := range map[string][]string{
		"bots/ref_eval_collect.yaml": {"taskset.path: your/data/path/containing/math__combined_54.4k.parquet: no such file or directory"},
		"learn_to_ask/train.yaml": {
			"default_workflow_type: examples.learn_to_ask.workflow.workflow_learn2ask: no module named 'examples",
		},
		"agentscope_frozenlake/frozenlake_agent.yaml": {
			"taskset.path: the environment variable TRINITY_TASKSET_PATH is not set",
			"default_workflow_type: examples.agentscope_frozenlake.workflow: no module named 'examples",
		},
	} {
		path := filepath.Join(root, filepath.FromSlash(file))
		var stdout, stderr bytes.Buffer
		if code := cli.Main([]string{"check", "--config", path, "--engine", "cpu"}, strings.NewReader(""), &stdout, &stderr); code != 1 {
			t.Errorf("%s: exit code %d, want 1", file, code)
		}
		placed := regexp.MustCompile(`^trinity: ` + regexp.QuoteMeta(path) + `:\d+:\d+: [\w.]+: `)
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if len(lines) != len(wants) {
			t.Fatalf("%s: %q, want %q", file, lines, wants)
		}
		for i, line := range lines {
			if !placed.MatchString(line) || !strings.Contains(line, wants[i]) {
				t.Errorf("%s: %s\nwant %s", file, line, wants[i])
			}
		}
		if strings.Contains(stdout.String()+stderr.String(), "does not load") {
			t.Errorf("%s: %s%s", file, &stdout, &stderr)
		}
	}
}
