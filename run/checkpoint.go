package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// A run's directory, in Trinity-RFT's layout: global_step_N holds a checkpoint, latest_checkpointed_iteration.txt the newest N.
const (
	stepPrefix  = "global_step_"
	latestFile  = "latest_checkpointed_iteration.txt"
	stateFile   = "run.json"
	pendingFile = "pending.tgx"
	engineDir   = "engine"
	// ModelDir and AdapterDir are where a checkpoint keeps what transformers and PEFT load.
	ModelDir   = "actor/huggingface"
	AdapterDir = "actor/lora_adapter"
)

// checkpoints writes and finds the checkpoints of one run.
type checkpoints struct {
	dir  string
	keep int          // newest that are kept; 0 means all
	say  func(string) // for people
}

// runState is what a checkpoint holds besides the engine's own state.
type runState struct {
	Step      int64           `json:"step"`
	Published int64           `json:"published"`
	Cursor    json.RawMessage `json:"cursor,omitempty"`
	Pending   int             `json:"pending"`   // experiences in pendingFile
	Algorithm json.RawMessage `json:"algorithm"` // coefficients that move
	Made      made            `json:"made"`
}

// save writes a checkpoint: a kill at any moment leaves the newest one whole.
func (c *checkpoints) save(state runState, pending []trinity.Group, write func(dir string) error) error {
	state.Pending = len(slices.Concat(pending...))
	err := durable.WriteDir(c.path(state.Step), func(dir string) error {
		if err := write(dir); err != nil {
			return err
		}
		if err := writePending(filepath.Join(dir, pendingFile), pending); err != nil {
			return err
		}
		if err := durable.WriteFile(filepath.Join(dir, stateFile), encodeJSON(state)); err != nil {
			return err
		}
		return durable.Seal(dir)
	})
	if err != nil {
		return err
	}
	return c.settle(state.Step)
}

// settle names the newest checkpoint and removes those that are too old.
func (c *checkpoints) settle(newest int64) error {
	if err := durable.WriteFile(filepath.Join(c.dir, latestFile), []byte(strconv.FormatInt(newest, 10))); err != nil {
		return err
	}
	return c.prune()
}

// steps lists the checkpoints that are whole, oldest first.
func (c *checkpoints) steps() ([]int64, error) {
	all, err := c.all()
	return slices.DeleteFunc(all, func(step int64) bool { return durable.Missing(c.path(step)) != "" }), err
}

// all lists also those that somebody has copied or removed in part, which no kill leaves.
func (c *checkpoints) all() ([]int64, error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var steps []int64
	for _, e := range entries {
		n, err := strconv.ParseInt(strings.TrimPrefix(e.Name(), stepPrefix), 10, 64)
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), stepPrefix) {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

func (c *checkpoints) path(step int64) string {
	return filepath.Join(c.dir, stepPrefix+strconv.FormatInt(step, 10))
}

// latest returns the newest checkpoint's state, directory and pending experiences; ok is false when there is none. What a killed run left undone
// is removed, or done. A checkpoint that lacks files gives way to the one before; one that is damaged is an error.
func (c *checkpoints) latest() (state runState, dir string, pending []trinity.Group, ok bool, err error) {
	if err := durable.RemoveLeftoverDirs(c.dir); err != nil {
		return state, "", nil, false, err
	}
	newest, ok, err := c.newest()
	if err != nil || !ok {
		return state, "", nil, false, err
	}
	dir = c.path(newest)
	if state, pending, err = readCheckpoint(dir); err != nil {
		return state, "", nil, false, fmt.Errorf("%w; %s", err, c.instead(newest))
	}
	return state, dir, pending, true, c.settle(newest)
}

// newest is the last checkpoint that is whole. Later ones that are not are told of.
func (c *checkpoints) newest() (step int64, ok bool, err error) {
	all, err := c.all()
	if err != nil {
		return 0, false, err
	}
	for i, step := range slices.Backward(all) {
		missing := durable.Missing(c.path(step))
		if missing == "" {
			return step, true, nil
		}
		what := fmt.Sprintf("the checkpoint of step %d is not whole: %s is missing", step, filepath.Join(c.path(step), missing))
		if i == 0 {
			return 0, false, fmt.Errorf("%s; put it back, or %s", what, anew)
		}
		c.say(what + ", so the one before is gone on from")
	}
	return 0, false, nil
}

// anew is what to do without a checkpoint: the experience buffer of the run may begin after it.
const anew = "give the run another name to begin anew"

// instead is what to do without a checkpoint that is damaged.
func (c *checkpoints) instead(step int64) string {
	steps, err := c.steps()
	if i := slices.Index(steps, step); err == nil && i > 0 {
		return fmt.Sprintf("remove %s to go on from %s", c.path(step), c.path(steps[i-1]))
	}
	return anew
}

func readCheckpoint(dir string) (state runState, pending []trinity.Group, err error) {
	if err := durable.Verify(dir); err != nil {
		return state, nil, err
	}
	if state, err = readState(dir); err != nil {
		return state, nil, err
	}
	path := filepath.Join(dir, pendingFile)
	pending, err = readPending(path)
	if n := len(slices.Concat(pending...)); err == nil && n != state.Pending {
		err = fmt.Errorf("%s: has %d experiences, want %d", path, n, state.Pending)
	}
	return state, pending, err
}

func readState(dir string) (state runState, err error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return state, nil
}

// prune removes all but the newest.
func (c *checkpoints) prune() error {
	steps, err := c.steps()
	if err != nil || c.keep <= 0 {
		return err
	}
	for len(steps) > c.keep {
		if err := durable.RemoveDir(c.path(steps[0])); err != nil {
			return err
		}
		steps = steps[1:]
	}
	return nil
}

// encodeJSON is for the small records of this package, which always encode.
func encodeJSON(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}
