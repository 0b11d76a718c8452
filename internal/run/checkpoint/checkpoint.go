// Package checkpoint keeps the checkpoints of a run: what one holds, which of them is whole, and
// whether a run may resume from one.
package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Paths below a checkpoint's directory. The layout is Trinity-RFT's.
const (
	EngineDir       = "engine"             // what the engine resumes from
	ModelDir        = "actor/huggingface"  // what transformers loads
	AdapterDir      = "actor/lora_adapter" // what PEFT loads
	CriticEngineDir = "critic/engine"
	CriticModelDir  = "critic/huggingface" // what transformers and model.critic_model_path load
)

const (
	latestFile  = "latest_checkpointed_iteration.txt"
	stateFile   = "run.json"
	pendingFile = "pending.tgx"
)

// Anew is what users can do without a checkpoint. The experience buffer of the run may begin after
// it, so they cannot resume without one.
const Anew = "give the run another name to begin anew"

// Dir is the directory of a run, with its checkpoints.
type Dir struct {
	Path string
	Keep int          // checkpoints that stay; 0 means all
	Say  func(string) // receives lines for people
	// Forget is called before a checkpoint is removed, if it is not nil.
	Forget func(dir string)
}

// State is what a checkpoint holds besides the engine's own state.
type State struct {
	Step      int64 `json:"step"`      // the last that was trained
	Published int64 `json:"published"` // version of the weights
	// OptimizerSteps is how many the policy had made; nil in a checkpoint of an earlier version.
	OptimizerSteps *int64 `json:"optimizer_steps,omitempty"`

	Cursor    json.RawMessage `json:"cursor,omitempty"`
	Count     int             `json:"pending"`   // experiences in Pending
	Algorithm json.RawMessage `json:"algorithm"` // coefficients that move
	Made      Provenance      `json:"made"`
	// ForEvaluation marks a checkpoint that was written because an evaluation measures its version.
	ForEvaluation bool `json:"for_evaluation,omitempty"`

	Pending []trinity.Group `json:"-"` // groups for the next batch; a file of its own holds them
}

// Save writes a checkpoint. write adds the engine's files to it. A kill at any moment leaves the
// newest checkpoint whole.
func (d *Dir) Save(state State, write func(dir string) error) error {
	state.Count = len(slices.Concat(state.Pending...))
	err := durable.WriteDir(d.Of(state.Step), func(dir string) error {
		if err := write(dir); err != nil {
			return err
		}
		if err := writePending(filepath.Join(dir, pendingFile), state.Pending); err != nil {
			return err
		}
		data, err := json.MarshalIndent(state, "", "  ")
		if err != nil {
			return err
		}
		if err := durable.WriteFile(filepath.Join(dir, stateFile), append(data, '\n')); err != nil {
			return err
		}
		return durable.Seal(dir)
	})
	if err != nil {
		return err
	}
	return d.finish(state.Step)
}

// finish names the newest checkpoint and removes those that are too old.
func (d *Dir) finish(newest int64) error {
	if err := durable.WriteFile(filepath.Join(d.Path, latestFile), []byte(strconv.FormatInt(newest, 10))); err != nil {
		return err
	}
	return d.prune()
}

// Of returns the directory of a step's checkpoint.
func (d *Dir) Of(step int64) string {
	return rundir.Checkpoint(d.Path, step)
}

// Steps lists the steps of the checkpoints that are whole, the oldest first.
func (d *Dir) Steps() ([]int64, error) {
	all, err := rundir.Checkpoints(d.Path)
	return slices.DeleteFunc(all, func(step int64) bool { return durable.Missing(d.Of(step)) != "" }), err
}

// Latest reads the newest checkpoint; false means that there is none. It first finishes or removes
// what a killed run left undone. A checkpoint that lacks files gives way to the one before it. A
// damaged checkpoint is an error.
func (d *Dir) Latest() (State, bool, error) {
	if err := durable.RemoveLeftoverDirs(d.Path); err != nil {
		return State{}, false, err
	}
	newest, ok, err := d.newest()
	if err != nil || !ok {
		return State{}, false, err
	}
	if err := removePartsOfModels(d.Of(newest)); err != nil {
		return State{}, false, err
	}
	state, err := read(d.Of(newest))
	if err != nil {
		return State{}, false, fmt.Errorf("%w; %s", err, d.instead(newest))
	}
	return state, true, d.finish(newest)
}

// removePartsOfModels removes what a killed process has left of models that it added to a checkpoint.
func removePartsOfModels(dir string) error {
	release, err := Lock(context.Background(), dir)
	if err != nil {
		return err
	}
	defer release()
	for _, model := range []string{ModelDir, CriticModelDir} {
		if err := durable.RemoveLeftoverDirs(filepath.Dir(filepath.Join(dir, model))); err != nil {
			return err
		}
	}
	return nil
}

// Before reads the newest whole checkpoint of a step before this one; false means that there is none.
// It changes nothing.
func (d *Dir) Before(step int64) (State, bool, error) {
	steps, err := d.Steps()
	if err != nil {
		return State{}, false, err
	}
	for _, n := range slices.Backward(steps) {
		if n < step {
			state, err := read(d.Of(n))
			return state, true, err
		}
	}
	return State{}, false, nil
}

// newest returns the step of the last checkpoint that is whole; false means that there is none. It
// tells people about later ones that are not whole.
func (d *Dir) newest() (step int64, ok bool, err error) {
	all, err := rundir.Checkpoints(d.Path)
	if err != nil {
		return 0, false, err
	}
	for i, step := range slices.Backward(all) {
		missing := durable.Missing(d.Of(step))
		if missing == "" {
			return step, true, nil
		}
		what := fmt.Sprintf("the checkpoint of step %d is not whole: %s is missing", step, filepath.Join(d.Of(step), missing))
		if i == 0 {
			return 0, false, fmt.Errorf("%s; put it back, or %s", what, Anew)
		}
		d.Say(what + ", so the one before is gone on from")
	}
	return 0, false, nil
}

// instead says what users can do about a damaged checkpoint.
func (d *Dir) instead(step int64) string {
	steps, err := d.Steps()
	if i := slices.Index(steps, step); err == nil && i > 0 {
		return fmt.Sprintf("remove %s to go on from %s", d.Of(step), d.Of(steps[i-1]))
	}
	return Anew
}

func read(dir string) (State, error) {
	if err := durable.Verify(dir); err != nil {
		return State{}, err
	}
	state, err := readState(dir)
	if err != nil {
		return state, err
	}
	path := filepath.Join(dir, pendingFile)
	if state.Pending, err = readPending(path); err != nil {
		return state, err
	}
	if n := len(slices.Concat(state.Pending...)); n != state.Count {
		return state, fmt.Errorf("%s: has %d experiences, want %d", path, n, state.Count)
	}
	return state, nil
}

func readState(dir string) (state State, err error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return state, nil
}
