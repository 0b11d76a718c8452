package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The test turns examples into modules outside of the repository, as docs/develop/README.md and
// docs/develop/algorithm.md describe.
func TestExamplesBuildInTheirOwnModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it links programs")
	}
	root := repository(t)
	for _, c := range []struct{ example, command, want string }{
		{"own_reward", "go run . list reward_fn", " share_reward"},
		{"own_environment", "go run . list environment", " corridor"},
		{"own_algorithm", "go run . list policy_loss_fn", " my_cispo"},
		{"own_algorithm", "go test -v .", "--- PASS: TestMyCISPO"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", c.example))); err != nil {
			t.Fatal(err)
		}
		requireTrinity(t, dir, root)
		run := exec.CommandContext(t.Context(), "bash", "-c", c.command)
		run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -ldflags=-w")
		if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %s: %v: %s", c.example, c.command, err, out)
		}
	}
}

// requireTrinity turns dir into a module that requires the module at root.
func requireTrinity(t *testing.T, dir, root string) {
	t.Helper()
	const path = "github.com/trinity-go/trinity"
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	requires := regexp.MustCompile(`(?m)^(module|tool) .*$`).ReplaceAllString(string(mod), "")
	for name, text := range map[string]string{
		"go.mod": "module example.com/my-trinity\n" + requires + "\nrequire " + path + " v0.0.0\nreplace " + path + " => " +
			filepath.ToSlash(root) + "\n",
		"go.sum": string(sum),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
