package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The committed assembly equals the output of this program.
func TestCommittedFilesAreCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the generator writes; run go generate in engine/cpu/internal/kernel", name)
		}
	}
}
