package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Files of lines are called after what they hold, the process that wrote them, and their place among
// its files.
const (
	spansPrefix  = "spans"
	failedPrefix = "failed"
	linesName    = "-%06d-%06d.jsonl.zst"
)

// The sizes at which lines leave the memory, and at which a new file begins, in bytes. A whole file
// is removed at once.
const (
	maxHeld = 128 << 10
	maxFile = 16 << 20
)

// lines appends JSON objects to files of compressed lines. Each flush is a frame of its own, so what
// a killed process leaves is whole up to its last flush. Every process begins files of its own.
type lines struct {
	dir, prefix   string
	process, part int // of the file; 0 before the first
	held          []byte
	file          *os.File
	size          int64 // of the file
	written       int64 // to all files
	encoder       *zstd.Encoder
}

func (l *lines) add(object any) error {
	line, err := json.Marshal(object)
	if err != nil {
		return err
	}
	l.held = append(append(l.held, line...), '\n')
	if len(l.held) < maxHeld {
		return nil
	}
	return l.flush()
}

func (l *lines) flush() (err error) {
	if len(l.held) == 0 {
		return nil
	}
	if l.encoder == nil {
		l.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxHeld), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return err
		}
	}
	if l.file == nil {
		if err = l.begin(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(l.encoder.EncodeAll(l.held, nil))
	if err != nil {
		return err
	}
	l.held, l.written = l.held[:0], l.written+int64(n)
	if l.size += int64(n); l.size < maxFile {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

func (l *lines) close() error {
	err := l.flush()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// begin creates the next file. Other processes may create theirs at the same time.
func (l *lines) begin() error {
	if l.process == 0 {
		all, err := linesIn(l.dir, l.prefix)
		if err != nil {
			return err
		}
		for _, f := range all {
			l.process = f.process
		}
		l.process++
	}
	for l.part, l.size = l.part+1, 0; ; l.process++ {
		path := filepath.Join(l.dir, fmt.Sprintf(l.prefix+linesName, l.process, l.part))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			l.file = file
			return err
		}
	}
}

// linesFile is a file of lines.
type linesFile struct {
	path          string
	process, part int
}

// linesIn returns the files with this prefix, the oldest process first, and its files in order.
func linesIn(dir, prefix string) (all []linesFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		f := linesFile{path: filepath.Join(dir, e.Name())}
		if _, err := fmt.Sscanf(e.Name(), prefix+linesName, &f.process, &f.part); err == nil {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b linesFile) int { return cmp.Or(a.process-b.process, a.part-b.part) })
	return all, nil
}
