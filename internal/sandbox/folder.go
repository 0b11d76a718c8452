package sandbox

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

// folder is the place of one program without namespaces.
type folder struct{ *durable.Scratch }

// newFolder makes the folder of a program.
func newFolder() (f folder, err error) {
	if f.Scratch, err = durable.NewScratch("trinity-sandbox-"); err != nil {
		return f, err
	}
	if err := os.Mkdir(f.work(), 0o700); err != nil {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

// work returns the program's working directory, in which the program may do anything.
func (f folder) work() string { return filepath.Join(f.Dir, "work") }

// remove removes the folder. It leaves what it may not remove.
func (f folder) remove() { _ = f.Close() }
