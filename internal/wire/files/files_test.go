package files_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/wire/files"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return hex.EncodeToString(s[:])
	}
	for name, text := range map[string]string{"b": "bb", "a/c": ""} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, digest, err := files.List(dir)
	want := fmt.Sprint([]files.File{{"a/c", 0, sum("")}, {"b", 2, sum("bb")}})
	if err != nil || fmt.Sprint(list) != want || digest != sum(sum("")+"  a/c\n"+sum("bb")+"  b\n") {
		t.Errorf("%v, %s, %v", list, digest, err)
	}
	if _, _, err := files.List(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that does not exist has files")
	}
}
