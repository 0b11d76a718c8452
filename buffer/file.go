package buffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/experience/archive"
)

// File is an archive that an explorer writes for people, other programs and later runs. Beside it stands the explorer's cursor.
type File struct {
	path string
	run  archive.Run

	mu   sync.Mutex
	to   *archive.Writer // nil before Resume and after Close
	next int64           // as in fileState
}

// fileState is beside the file, under its name and [archive.StateFile].
type fileState struct {
	Next   int64           `json:"next"` // the step behind the last that has left something: what there is of it was not put; 0 where it was not kept yet
	Cursor json.RawMessage `json:"cursor"`
}

// NewFile is the run's archive at path, of the form that its ending says; Resume opens it.
func NewFile(path string, run archive.Run) *File { return &File{path: path, run: run} }

// Resume implements trinity.Sink. What a killed explorer had written and not put gives way when its step is put again.
func (f *File) Resume(context.Context) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := archive.New(f.path, f.run)
	if err := to.Claim(); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	state, err := f.state()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	f.to, f.next = to, state.Next
	return state.Cursor, nil
}

// Put implements trinity.Sink.
func (f *File) Put(ctx context.Context, d trinity.Delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to == nil {
		return trinity.ErrEnded
	}
	step := f.next
	if exps := slices.Concat(d.Groups...); len(exps) > 0 {
		step = exps[0].ID.Step
		f.next = step + 1
	}
	if step > 0 {
		if err := f.to.Write(ctx, step, d.Groups); err != nil {
			return err
		}
	}
	data, err := json.Marshal(fileState{f.next, d.Cursor})
	if err != nil {
		return err
	}
	return durable.WriteFile(f.path+archive.StateFile, data)
}

// Pause implements trinity.Sink: nobody reads meanwhile.
func (f *File) Pause(context.Context, int64) error { return nil }

// Close implements trinity.Sink.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to == nil {
		return nil
	}
	to := f.to
	f.to = nil
	return to.Close()
}

// state is that of the last delivery.
func (f *File) state() (s fileState, err error) {
	data, err := os.ReadFile(f.path + archive.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fileState{Next: 1}, nil // a run begins with step 1
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s%s: %w", f.path, archive.StateFile, err)
	}
	return s, nil
}
