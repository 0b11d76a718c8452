package checkpoint

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// KeepEvaluations writes what the run knows of its versions.
func (d *Dir) KeepEvaluations(e rundir.Evaluations) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(d.Path, rundir.BestFile), append(data, '\n'))
	}
	return err
}

// preferred returns the checkpoint that stands for the stage: the best one, unless that with which the stage began was
// better; else the newest that is whole, else the last of all.
func (d *Dir) preferred(all []int64) string {
	if best, err := rundir.ReadBest(d.Path); err == nil && best != nil {
		return HandedOn(best)
	}
	for _, step := range slices.Backward(all) {
		if durable.Missing(d.Of(step)) == "" {
			return d.Of(step)
		}
	}
	return d.Of(all[len(all)-1])
}

// HandedOn returns the checkpoint whose model a stage with this best one hands on: that with which the stage began, if
// an earlier stage wrote it and it was better, else the best one. With a critic it is the best one always, because
// the stage alone trains it.
func HandedOn(best *rundir.Best) string {
	hasCritic := exists(filepath.Join(best.Checkpoint, CriticModelDir)) || exists(filepath.Join(best.Checkpoint, CriticEngineDir))
	if best.Start != nil && !hasCritic {
		if start := Start(best.Checkpoint); start != "" {
			return start
		}
	}
	return best.Checkpoint
}

// prune removes all but the newest checkpoints. It keeps the best one, and those that an evaluation asked
// for until it has ended. Afterwards these go, unless they are the best or the newest.
func (d *Dir) prune() error {
	steps, err := d.Steps()
	if err != nil || len(steps) == 0 {
		return err
	}
	e, err := rundir.ReadEvaluations(d.Path)
	if err != nil {
		return err
	}
	keep := map[int64]bool{steps[len(steps)-1]: true}
	if best, ok := e.BestOf(func(v int64) bool { return slices.Contains(steps, v) }); ok {
		keep[best.Version] = true
	}
	left := d.Keep
	for _, step := range slices.Backward(steps) {
		asked := false // only by an evaluation
		if e.Metric != "" {
			state, err := readState(d.Of(step))
			asked = err == nil && state.ForEvaluation
		}
		if asked && step > e.Newest() {
			keep[step] = true
		}
		if !asked {
			if left--; d.Keep <= 0 || left >= 0 {
				keep[step] = true
			}
		}
	}
	for _, step := range steps {
		if !keep[step] {
			if d.Forget != nil {
				d.Forget(d.Of(step))
			}
			if err := durable.RemoveDir(d.Of(step)); err != nil {
				return err
			}
		}
	}
	return nil
}
