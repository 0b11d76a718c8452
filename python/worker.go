// Package python holds the Python package that trains with PyTorch and that starts the programs of
// engines, so that the binary needs no installation of it.
package python

import (
	"embed"
	"io/fs"
	"strings"
)

// Worker are the files of the package trinity_worker, below trinity_worker/trinity_worker, and its
// description.
//
//go:embed trinity_worker/pyproject.toml trinity_worker/trinity_worker/*.py trinity_worker/trinity_worker/py.typed
var Worker embed.FS

// Protocol is the version of the requests between this program and the package, which announces its
// own (PROTOCOL in __init__.py).
const Protocol = 1

// Files returns the package's files by their path from the directory to import it from.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(Worker, "trinity_worker/trinity_worker", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		files[strings.TrimPrefix(path, "trinity_worker/")], err = Worker.ReadFile(path)
		return err
	})
	return files, err
}
