package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

// Sweep says of which sweep a run is, in [SweepFile].
type Sweep struct {
	Name   string   `json:"name"`   // of the configuration, with which the names of the runs begin; "" for a run of no sweep
	Varied []string `json:"varied"` // the keys that differ between its runs, also the seed
}

// ReadSweep returns the sweep to which the run in a directory belongs.
func ReadSweep(dir string) (s Sweep, err error) {
	text, err := durable.ReadWithin(dir, SweepFile, maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Sweep{}, DamagedError{fmt.Errorf("%s is damaged: remove it, the run does not need it", filepath.Join(dir, SweepFile))}
	}
	return s, nil
}
