package tinker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive returns a tar of files, by name.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(name))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnpack writes the two files of an adapter, and nothing that lies elsewhere.
func TestUnpack(t *testing.T) {
	plain := archive(t, "run/adapter_config.json", "run/../../evil.txt", "run/adapter_model.safetensors", "tinker.json")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(plain); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tar": plain, "tar.gz": zipped.Bytes()} {
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unpack(content, dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		written, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", "*"))
		if len(written) != 2 {
			t.Errorf("%s: %q", name, written)
		}
	}
	for want, content := range map[string][]byte{
		"an adapter has":                archive(t, "adapter_config.json"),
		"it has adapter_config.json tw": archive(t, "adapter_config.json", "x/adapter_config.json"),
		"unexpected EOF":                plain[:515],
	} {
		if err := unpack(content, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
