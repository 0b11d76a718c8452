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
	process, part int   // of the file
	max           int64 // bytes of a file
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
		l.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(maxHeld), zstd.WithLowerEncoderMem(true))
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
	if l.size += int64(n); l.size < l.max {
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

// begin creates the next file.
func (l *lines) begin() (err error) {
	l.part, l.size = l.part+1, 0
	flags := os.O_CREATE | os.O_WRONLY
	l.file, err = os.OpenFile(filepath.Join(l.dir, fmt.Sprintf(l.prefix+linesName, l.process, l.part)), flags, 0o644)
	return err
}

// newProcess returns the number of a process that has no files yet. Its first file of spans says that
// the number is taken, to processes that begin at the same time.
func newProcess(dir string) (number int, err error) {
	for _, prefix := range []string{spansPrefix, failedPrefix} {
		all, err := linesIn(dir, prefix)
		if err != nil {
			return 0, err
		}
		for _, f := range all {
			number = max(number, f.process)
		}
	}
	for {
		number++
		path := filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, number, 1))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			return number, file.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, err
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

// unread opens a file of lines, and returns its size. Without anything new behind the offset the file is
// nil, and so it is if the file was thinned out meanwhile.
func unread(path string, from int64) (file *os.File, size int64, err error) {
	file, err = os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil || info.Size() <= from {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
