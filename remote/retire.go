package remote

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
)

// Explorers are the names of those that a trainer has had in a run's directory.
func Explorers(dir string) ([]string, error) {
	known, err := readRoster(filepath.Join(dir, rosterFile))
	return slices.Sorted(maps.Keys(known)), err
}

// Retire removes what a trainer keeps in a run's directory for explorers of other processes, for the run goes on without them: a later trainer must not take it for what the
// run has come to. The buffer, which the run's own explorer has resumed, waits for nobody who is yet to join.
func Retire(dir string, b trinity.Buffer) error {
	known, err := readRoster(filepath.Join(dir, rosterFile))
	if err != nil {
		return err
	}
	for _, e := range known {
		if e.Of > 1 {
			if err := b.Sink(trinity.YetToJoin).Close(); err != nil {
				return err
			}
			break
		}
	}
	for _, name := range []string{rosterFile, AddressFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s := shelf{dir: dir}
	return s.open(pin{version: math.MinInt64})
}
