package checkpoint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A model whose middle layers alone were changed is another one.
func TestAFingerprintDependsOnTheMiddle(t *testing.T) {
	dir := t.TempDir()
	of := func(data []byte) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := DeepFingerprint(dir, IsWeights)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	data := make([]byte, 3<<20)
	before := of(data)
	for at := 1 << 20; at < 1<<20+200<<10; at++ {
		data[at] = 1
	}
	if of(data) == before {
		t.Error("two models that differ in 200 KiB have the same fingerprint")
	}
}

func TestAFingerprintDependsOnNameLengthBeginningAndEnd(t *testing.T) {
	const size = 300 << 10
	of := func(name string, data []byte) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := Fingerprint(dir, IsModelFile)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	changed := func(at int) []byte {
		data := make([]byte, size)
		data[at] = 1
		return data
	}
	whole := of("a.safetensors", make([]byte, size))
	for what, other := range map[string]string{
		"the first byte":   of("a.safetensors", changed(0)),
		"the first 64 KiB": of("a.safetensors", changed(64<<10-1)),
		"the last 64 KiB":  of("a.safetensors", changed(size-64<<10)),
		"the last byte":    of("a.safetensors", changed(size-1)),
		"the length":       of("a.safetensors", bytes.Repeat([]byte{0}, size+1)),
		"the name":         of("b.safetensors", make([]byte, size)),
	} {
		if other == whole {
			t.Errorf("two files that differ in %s have the same fingerprint", what)
		}
	}
	if same := of("a.safetensors", make([]byte, size)); same != whole {
		t.Errorf("one file has the fingerprints %s and %s", whole, same)
	}
}

// A pipe is no part of a fingerprint, and is never opened, because that would wait for a writer.
func TestPipesAreNotOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip("mkfifo:", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Fingerprint(pipe, IsModelFile)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Fingerprint waits for a writer")
	}
}
