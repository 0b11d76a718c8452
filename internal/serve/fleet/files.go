package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/weights"
)

// explorersFile, in the run's directory, lists the explorers for a trainer that resumes.
const explorersFile = "explorers.json"

// entry is an explorer in explorersFile.
type entry struct {
	Closed bool `json:"closed"`
	holding
}

// Explorers returns the names of the explorers that joined a trainer of the run's directory.
func Explorers(dir string) ([]string, error) {
	entries, err := readExplorers(dir)
	return slices.Sorted(maps.Keys(entries)), err
}

// RemoveFiles removes what a trainer keeps in the run's directory for explorers in other processes:
// their names, its address and the published weights.
func RemoveFiles(dir string) error {
	for _, name := range []string{explorersFile, AddressFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return weights.RemoveVersions(dir)
}

// readExplorers returns nil if there is no file.
func readExplorers(dir string) (entries map[string]entry, err error) {
	path := filepath.Join(dir, explorersFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, and start all explorers again, also those that have ended", path, err)
	}
	return entries, nil
}

// write writes explorersFile. The lock is held.
func (ex *explorers) write(dir string) error {
	entries := map[string]entry{}
	for name, e := range ex.byName {
		entries[name] = entry{e.closed, e.has}
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, explorersFile), data)
}
