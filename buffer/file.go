package buffer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// File is a file of JSON lines, one experience each, between an explorer and a trainer of different processes: both trinity.Sink and trinity.Source. The explorer appends, the
// trainer follows the end of the file until the explorer has closed it.
type File struct {
	path    string
	timeout time.Duration // how long Take waits
	poll    time.Duration // between looks at the file

	mu     sync.Mutex
	file   *os.File // appended to
	put    fileState
	offset int64 // end of what was read
	ready  []*trinity.Experience
}

// fileState is the explorer's own record beside the file: how much of it is committed, and its cursor then.
type fileState struct {
	Offset int64           `json:"offset"`
	Cursor json.RawMessage `json:"cursor"`
	Paused int64           `json:"paused"` // the version that the explorer waits for
	Closed bool            `json:"closed"`
}

// NewFile makes a buffer at path. Put and Take open it as they need it.
func NewFile(path string, timeout, poll time.Duration) *File {
	return &File{path: path, timeout: timeout, poll: poll}
}

// Resume cuts off what a killed explorer had not committed and returns its cursor. The explorer calls it once, before the first Put.
func (f *File) Resume(context.Context) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.state()
	if err != nil {
		return nil, err
	}
	if f.file, err = os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	if err := f.holds(f.file, state.Offset); err != nil {
		return nil, err
	}
	if err := f.file.Truncate(state.Offset); err != nil {
		return nil, err
	}
	_, err = f.file.Seek(state.Offset, io.SeekStart)
	f.put = fileState{Offset: state.Offset, Cursor: state.Cursor}
	return state.Cursor, errors.Join(err, f.commit())
}

// Put implements trinity.Sink.
func (f *File) Put(_ context.Context, d trinity.Delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.put.Closed {
		return trinity.ErrEnded
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, g := range d.Groups {
		for _, e := range g {
			if err := enc.Encode(e); err != nil {
				return err
			}
		}
	}
	n, err := f.file.Write(lines.Bytes())
	if err := errors.Join(err, f.file.Sync()); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.put.Offset, f.put.Cursor = f.put.Offset+int64(n), d.Cursor
	return f.commit()
}

// Pause implements trinity.Sink.
func (f *File) Pause(_ context.Context, until int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until == f.put.Paused {
		return nil
	}
	f.put.Paused = until
	return f.commit()
}

// Close implements trinity.Sink: the trainer's Take ends once it has read everything.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	f.put.Closed = true
	return errors.Join(f.file.Close(), f.commit())
}

// Take implements trinity.Source.
func (f *File) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	deadline := time.Now().Add(f.timeout)
	for len(f.ready) < n {
		state, err := f.state()
		if err != nil {
			return nil, err
		}
		if err := f.read(state.Offset); err != nil {
			return nil, err
		}
		if len(f.ready) >= n {
			break
		}
		if state.Closed && len(f.ready) == 0 {
			return nil, io.EOF
		}
		if state.Closed || state.Paused > published {
			n = len(f.ready)
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("waiting for %d experiences in %s (there are %d): max_read_timeout of %v passed; is a run in mode explore writing it?", n, f.path, len(f.ready), f.timeout)
		}
		select {
		case <-time.After(f.poll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	out := f.ready[:n:n]
	f.ready = append([]*trinity.Experience(nil), f.ready[n:]...)
	return out, nil
}

// read decodes what was committed since the last look.
func (f *File) read(end int64) error {
	if end <= f.offset {
		return nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f.holds(file, end); err != nil {
		return err
	}
	dec := json.NewDecoder(io.NewSectionReader(file, f.offset, end-f.offset))
	for {
		e := new(trinity.Experience)
		err := dec.Decode(e)
		if errors.Is(err, io.EOF) {
			f.offset = end
			return nil
		}
		if err == nil {
			err = e.Check()
		}
		if err != nil {
			return fmt.Errorf("%s, after byte %d: %w", f.path, f.offset+dec.InputOffset(), err)
		}
		f.ready = append(f.ready, e)
	}
}

// holds checks that the file is as long as its state says.
func (f *File) holds(file *os.File, size int64) error {
	info, err := file.Stat()
	if err == nil && (size < 0 || info.Size() < size) {
		err = fmt.Errorf("%s has %d bytes, and %s.state says %d: it was damaged; remove both to explore from the first step", f.path, info.Size(), f.path, size)
	}
	return err
}

// State implements trinity.Source.
func (f *File) State() (trinity.SourceState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cursor, err := json.Marshal(f.offset)
	return trinity.SourceState{Cursor: cursor, Pending: append([]*trinity.Experience(nil), f.ready...)}, err
}

// Restore implements trinity.Source.
func (f *File) Restore(s trinity.SourceState) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = s.Pending
	return json.Unmarshal(s.Cursor, &f.offset)
}

// commit makes what was put, up to here, the trainer's to read.
func (f *File) commit() error {
	data, err := json.Marshal(f.put)
	if err != nil {
		return err
	}
	return durable.WriteFile(f.path+".state", data)
}

func (f *File) state() (fileState, error) {
	var s fileState
	data, err := os.ReadFile(f.path + ".state")
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s.state: %w", f.path, err)
	}
	return s, nil
}
