package mapped

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOpenMapsTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"some": "content", "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil || string(f.Bytes) != content {
			t.Fatalf("%s: %q, %v", name, f.Bytes, err)
		}
		for range 2 {
			if err := f.Close(); err != nil || f.Bytes != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := Open(path); err == nil {
			t.Errorf("%s opens", path)
		}
	}
}
