package studio

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Set is a setting that tells a run from the others of its sweep.
type Set struct {
	Key   string `json:"key"`
	Head  string `json:"head"` // the key in few characters
	Value string `json:"value"`
}

// Placed says of what a run is a part.
type Placed struct {
	Parent string `json:"parent"` // the ID of the run of which it is a stage
	Sweep  string `json:"sweep"`  // the ID of its sweep, which is a path, too
	Label  string `json:"label"`  // what tells it from the others of its sweep
	Sets   []Set  `json:"sets"`   // the settings that do

	sweep rundir.Sweep
}

// placed adds to a run of what it is a part: a sweep, a run of several stages.
func (f *runFiles) placed(run *Run) error {
	dir := f.dir
	if run.Stage != "" && run.ID != whole {
		run.Parent, dir = path.Dir(run.ID), filepath.Dir(dir)
	}
	of, err := rundir.ReadSweep(dir)
	if run.sweep = of; of.Name != "" {
		run.Sweep = path.Join(path.Dir(run.whole()), of.Name)
	}
	return err
}

// kept returns what names a run.
func (f *runFiles) kept(run *Run) (report.Kept, error) {
	set, err := f.settings()
	return report.Kept{Name: run.ID, Run: run.Name, Stage: run.Stage, Settings: set.flat, Varied: run.sweep.Varied}, err
}

// whole returns the ID of the run, and of a stage that of its run.
func (r *Run) whole() string { return cmp.Or(r.Parent, r.ID) }

// name gives runs the names that tell them apart in their sweep.
func (s *runs) name(root string, all []*Run) {
	sweeps := map[string][]*Run{}
	for _, run := range all {
		if run.Sweep != "" {
			sweeps[run.Sweep] = append(sweeps[run.Sweep], run)
		}
	}
	for _, runs := range sweeps {
		var kept []report.Kept
		for _, run := range runs {
			if slices.ContainsFunc(kept, func(k report.Kept) bool { return k.Name == run.whole() }) {
				continue // another stage of the same run
			}
			k, _ := s.at(dirIn(root, run.ID), run.ID).kept(run) // the summary tells an error
			k.Name, k.Stage = run.whole(), ""                   // a sweep's keys are those of its runs
			kept = append(kept, k)
		}
		n := report.Name(kept)
		for _, run := range runs {
			i := slices.IndexFunc(kept, func(k report.Kept) bool { return k.Name == run.whole() })
			run.Label, run.Sets = n.Labels[i], []Set{}
			for k, key := range n.Keys {
				run.Sets = append(run.Sets, Set{key, n.Heads[k], n.Values[i][k]})
			}
		}
	}
}
