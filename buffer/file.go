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

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// File is a file of JSON lines, one experience each, that an explorer writes for people and other programs. What a delivery adds is there as a whole: beside
// the file stands how much of it counts, and the explorer's cursor.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File // nil before Resume and after Close
	put  fileState
}

// fileState is beside the file, under its name and .state.
type fileState struct {
	Offset int64           `json:"offset"` // bytes that count
	Cursor json.RawMessage `json:"cursor"`
}

// NewFile is the file at path; Resume opens it.
func NewFile(path string) *File { return &File{path: path} }

// Resume implements trinity.Sink: what a killed explorer had not put as a whole is cut off.
func (f *File) Resume(context.Context) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.state()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := f.cut(file, state.Offset); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.file, f.put = file, state
	return state.Cursor, nil
}

// cut leaves what counts.
func (f *File) cut(file *os.File, size int64) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size < 0 || info.Size() < size {
		return fmt.Errorf("%s has %d bytes, and %s.state says %d: it was damaged; remove both to explore from the first step", f.path, info.Size(), f.path, size)
	}
	if err := file.Truncate(size); err != nil {
		return err
	}
	_, err = file.Seek(size, io.SeekStart)
	return err
}

// Put implements trinity.Sink.
func (f *File) Put(_ context.Context, d trinity.Delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
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
	data, err := json.Marshal(f.put)
	if err != nil {
		return err
	}
	return durable.WriteFile(f.path+".state", data)
}

// Pause implements trinity.Sink: nobody reads meanwhile.
func (f *File) Pause(context.Context, int64) error { return nil }

// Close implements trinity.Sink.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
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
