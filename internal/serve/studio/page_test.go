package studio

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The modules that touch no page keep what testdata/page.test.mjs says.
func TestModulesOfThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on PATH")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "zh"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"page.test.mjs": "testdata/page.test.mjs"}
	for _, name := range []string{
		"api.js", "diff.js", "lanes.js", "measures.js", "schema.js", "sequence.js", "series.js", "yaml.js",
		"zh.js", "zh/docs.js", "zh/sentences.js",
	} {
		files[name] = "page/" + name
	}
	for name, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), node, "--test", "page.test.mjs")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
