package fleet

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Explorers are the names of those that a trainer has had in a run's directory.
func Explorers(dir string) ([]string, error) {
	known, err := readRoster(filepath.Join(dir, rosterFile))
	return slices.Sorted(maps.Keys(known)), err
}

// Retire removes what a trainer keeps in a run's directory for explorers of other processes. The run continues without them, and a later trainer must not take
// these files for the state of the run.
func Retire(dir string) error {
	for _, name := range []string{rosterFile, AddressFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s := shelf{dir: dir}
	return s.open(pin{version: math.MinInt64})
}
