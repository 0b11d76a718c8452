package trace

import (
	"errors"
	"io/fs"
	"math"
	"os"
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
	spans, err = readNew(f, files, parseSpan)
	failures, err2 := readNew(f, failed, parseFailure)
	return spans, failedIn(failures), errors.Join(err, err2)
}

// readNew reads the lines that files have got. A damaged file is read no further.
func readNew[T any](f *Follower, files []linesFile, parse func([]byte, *T) error) (all []T, err error) {
	for _, file := range files {
		end, fileErr := eachLine(file.path, f.read[file.path], math.MaxInt, appended(&all, parse))
		f.read[file.path], err = end, errors.Join(err, fileErr)
	}
	return all, err
}
