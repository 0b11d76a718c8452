package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOwnModule builds examples/own_reward as a module outside of the repository, as docs/develop.md says that one can.
func TestOwnModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it links a program")
	}
	root, dir := repository(t), t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const path = "github.com/trinity-go/trinity"
	mod := regexp.MustCompile(`(?m)^(module|tool) .*$`).ReplaceAllString(read("go.mod"), "")
	files := map[string]string{
		"go.mod":  "module example.com/my-trinity\n" + mod + "\nrequire " + path + " v0.0.0\nreplace " + path + " => " + filepath.ToSlash(root) + "\n",
		"go.sum":  read("go.sum"),
		"main.go": read("examples/own_reward/main.go"),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".", "list", "reward_fn")
	run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " share_reward") {
		t.Errorf("go run . list reward_fn: %v: %s", err, out)
	}
}
