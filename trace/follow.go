package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Follower reads what a run adds to its trace.
type Follower struct {
	dir  string
	read map[string]int64 // bytes of each file, up to the end of a frame; nil before the first look
}

// Follow returns a follower of the trace in a directory, which need not exist yet. What processes
// wrote before its first look it leaves out, but for the newest file of spans, and the failures.
func Follow(dir string) *Follower { return &Follower{dir: dir} }

// Next returns what is new. With an error about damaged files it returns what the others have.
func (f *Follower) Next() (spans []Span, failures []Failure, err error) {
	files, err := linesIn(f.dir, spansPrefix)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, nil, err
	}
	failed, err := linesIn(f.dir, failedPrefix)
	if err != nil {
		return nil, nil, err
	}
	if f.read == nil {
		f.read = map[string]int64{}
		for _, old := range files[:max(0, len(files)-1)] {
			if info, err := os.Stat(old.path); err == nil { // else it was thinned out
				f.read[old.path] = info.Size()
			}
		}
	}
	spans, err = readNew[Span](f, files)
	failures, err2 := readNew[Failure](f, failed)
	kept := failures[:0]
	for _, one := range failures {
		if one.Kind != "" {
			kept = append(kept, one)
		}
	}
	return spans, kept, errors.Join(err, err2)
}

// readNew reads the lines that files have got. A damaged file is read no further.
func readNew[T any](f *Follower, files []linesFile) (all []T, err error) {
	for _, file := range files {
		lines, end, fileErr := readFrom[T](file.path, f.read[file.path])
		f.read[file.path] = end
		all, err = append(all, lines...), errors.Join(err, fileErr)
	}
	return all, err
}

// readFrom reads the lines of a file from an offset on, and returns where to go on. A flush writes a
// whole frame at once, so half a frame is read again later.
func readFrom[T any](path string, from int64) (all []T, end int64, err error) {
	file, size, err := unread(path, from)
	if file == nil {
		return nil, from, err
	}
	defer file.Close()
	z, err := zstd.NewReader(io.NewSectionReader(file, from, size-from),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, from, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, size, nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, from, nil
		}
		var one T
		if err == nil {
			err = json.Unmarshal(line, &one)
		}
		if err != nil {
			return all, size, fmt.Errorf("%s is damaged behind byte %d: %w", path, from, err)
		}
		all = append(all, one)
	}
}
