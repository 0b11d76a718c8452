//go:build unix

package studio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another user's files about runs are not read, and nothing is started from them.
func TestOwnerOfTheStudiosFiles(t *testing.T) {
	root := t.TempDir()
	put(t, root, ".studio/p/small/start.json", `{"text":"name: small\n"}`)
	if _, started, err := startedAs(root, "p/small"); started != "p/small" || err != nil || checkOwner(root) != nil {
		t.Fatalf("%q, %v, %v", started, err, checkOwner(root))
	}
	own := filepath.Join(root, ".studio")
	if err := os.Chown(own, os.Geteuid()+1, -1); err != nil {
		t.Skip("only the administrator gives a directory to another user: ", err)
	}
	if err := checkOwner(root); err == nil || !strings.Contains(err.Error(), own+" belongs to another user") {
		t.Error(err)
	}
	_, err := (&starts{runs: &runs{dir: root, files: newCache(nil)}}).launch("p/small", configRequest{Text: "name: small\n"}, nil)
	if err == nil || !strings.Contains(err.Error(), "another user") {
		t.Error(err)
	}
	if _, started, err := startedAs(root, "p/small"); started != "" || err != nil {
		t.Errorf("%q, %v", started, err)
	}
}
