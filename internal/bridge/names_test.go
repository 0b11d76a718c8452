package bridge

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A check asks a section once what its modules register, and the next check asks again.
func TestRegisteredIsAskedOnceACheck(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	dir := t.TempDir()
	const text = "from trinity.common.rewards import REWARD_FUNCTIONS\n\n@REWARD_FUNCTIONS.register_module(\"own\")\nclass Own:\n    pass\n"
	if err := os.WriteFile(filepath.Join(dir, "own.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlugins()
	p.PluginDirs = []string{dir}
	registers := func() {
		t.Helper()
		if all, err := p.Registered(); err != nil || len(all) != 1 || all[0].Name != "own" {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	end := Together()
	registers()
	for key, mux := range described.shared {
		_ = mux.Close()
		delete(described.shared, key)
	}
	registers()
	if len(described.shared) > 0 {
		t.Error("a second question of a check has started a process")
	}
	end()
	if len(described.registered) > 0 {
		t.Error("the answers of a check outlive it")
	}
	registers()
}
