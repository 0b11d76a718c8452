package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trinity-go/trinity/internal/cli"
	_ "github.com/trinity-go/trinity/standard"
)

// TestMain lets the test binary act as trinity in scripts and in tests that send signals.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"trinity": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// trinity runs a command in this process and returns its standard output. The command must succeed.
func trinity(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := cli.Main(args, strings.NewReader(stdin), &stdout, &stderr); code != 0 {
		t.Fatalf("trinity %s: exit code %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String()
}

// tiny creates a tiny model in dir/model and an adapter for it in dir/adapter, each by two steps of
// supervised training.
func tiny(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	quickstart, err := filepath.Abs("../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	sft := func(name string, overrides ...string) {
		t.Helper()
		args := append([]string{
			"run", "--config", "testdata/sft.yaml", "name=" + name, "checkpoint_root_dir=" + dir,
			"buffer.trainer_input.experience_buffer.path=" + filepath.Join(quickstart, "data", "sft.jsonl"),
		}, overrides...)
		trinity(t, "", args...)
	}
	model := filepath.Join(dir, "model")
	sft("full", "model.model_path="+filepath.Join(quickstart, "model"))
	rename(t, filepath.Join(dir, "cli", "full", "global_step_2", "actor", "huggingface"), model)
	sft("lora", "model.model_path="+model, "model.lora_configs=[{lora_rank: 4, lora_alpha: 64, target_modules: all-linear}]")
	rename(t, filepath.Join(dir, "cli", "lora", "global_step_2", "actor", "lora_adapter"), filepath.Join(dir, "adapter"))
	return dir
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
