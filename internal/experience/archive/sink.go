package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Sink is a trinity.Sink that writes what an explorer delivers to an archive in files, for people
// and for later runs. A hidden file in the archive's directory holds the explorer's cursor, so the
// cursor goes where the experiences go.
type Sink struct {
	dir, run string

	mu   sync.Mutex
	to   *files // nil before Resume and after Close
	next int64  // as in sinkState
}

const stateFile = ".explorer"

// sinkState is the content of stateFile.
type sinkState struct {
	Next   int64           `json:"next"` // steps from this one on were not delivered
	Cursor json.RawMessage `json:"cursor"`
}

// NewSink returns a sink that writes to the archive in directory dir, in the form that dir ends in.
// Resume opens it. run is as for [New].
func NewSink(dir, run string) *Sink { return &Sink{dir: dir, run: run} }

// Resume implements trinity.Sink. It removes a step that a killed explorer has written without the
// cursor that belongs to it. An archive does not number deliveries: delivered is 0.
func (s *Sink) Resume(context.Context) (delivered int64, cursor json.RawMessage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := openFiles(s.dir)
	if err != nil {
		return 0, nil, err
	}
	state, err := s.state()
	if err != nil {
		return 0, nil, err
	}
	if err := to.removeFrom(state.Next); err != nil {
		return 0, nil, err
	}
	to.run = s.run
	s.to, s.next = to, state.Next
	return 0, state.Cursor, nil
}

// Put implements trinity.Sink. A delivery without experiences only moves the cursor.
func (s *Sink) Put(ctx context.Context, d trinity.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		return trinity.ErrEnded
	}
	if exps := slices.Concat(d.Groups...); len(exps) > 0 {
		step := exps[0].ID.Step
		if err := s.to.write(ctx, step, exps); err != nil {
			return err
		}
		s.next = step + 1
	}
	data, err := json.Marshal(sinkState{s.next, d.Cursor})
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(s.dir, stateFile), data)
}

// Pause implements trinity.Sink. It does nothing, because no trainer reads the archive meanwhile.
func (s *Sink) Pause(context.Context, int64) error { return nil }

// Close implements trinity.Sink.
func (s *Sink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = nil
	return nil
}

// state reads the state after the last delivery.
func (s *Sink) state() (state sinkState, err error) {
	path := filepath.Join(s.dir, stateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		return state, fmt.Errorf("%s: %w", path, err)
	}
	return state, nil
}
