// Package archive keeps experiences in files for people and for other programs, step by step: as JSON Lines (.jsonl), compressed as well (.jsonl.gz,
// .jsonl.zst), and as Parquet (.parquet, a directory with a file for each step, which readers of Parquet take as one table).
//
// A step is in it whole or not at all, and on the disk when Write returns. JSON Lines hold the JSON form of a trinity.Experience, in which numbers that
// are not finite are left out. A row of Parquet has the columns id, step, task, run, turn, prompt, response, reward (null without a valid one), reason,
// model_version, oldest_version, truncated, prompt_tokens, response_tokens, and experience: all of it, exactly, in the form of package experience.
package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Forms are the endings of names.
var Forms = []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"}

// IsName reports whether a name ends like an archive's.
func IsName(path string) bool {
	return slices.ContainsFunc(Forms, func(form string) bool { return strings.HasSuffix(path, form) })
}

// Writer adds steps to an archive. One that is there is gone on with: a step that is explored again, because a kill threw the run back, takes the
// place of what the archive has of it and of later ones; an archive of which nothing would be left may be another run's and is moved aside first, to its
// name with a number behind it.
type Writer struct {
	path string
	to   form // nil until the first Write
}

// form is how an archive is written.
type form interface {
	// open prepares to write from a step on: it removes what there is of it, of later ones, and what is not whole, or moves the archive aside where
	// nothing else is in it.
	open(path string, step int64) error
	// write adds a step, or more of the last one.
	write(step int64, exps []*trinity.Experience) error
	close() error
}

// New makes a writer of the archive at path, of a form that is known by the path's ending. Nothing is opened before the first Write.
func New(path string) *Writer { return &Writer{path: path} }

// Write adds the groups of a step.
func (w *Writer) Write(groups []trinity.Group) error {
	exps := slices.Concat(groups...)
	if len(exps) == 0 {
		return nil
	}
	step := exps[0].ID.Step
	if w.to == nil {
		if err := w.open(step); err != nil {
			return err
		}
	}
	return w.to.write(step, exps)
}

func (w *Writer) open(step int64) error {
	to, err := formOf(w.path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.path), 0o755); err != nil {
		return err
	}
	if err := to.open(w.path, step); err != nil {
		return err
	}
	w.to = to
	return nil
}

func formOf(path string) (form, error) {
	switch {
	case strings.HasSuffix(path, ".parquet"):
		return &table{}, nil
	case strings.HasSuffix(path, ".jsonl"):
		return &lines{steps: plain{}}, nil
	case strings.HasSuffix(path, ".jsonl.gz"):
		return &lines{steps: gz}, nil
	case strings.HasSuffix(path, ".jsonl.zst"):
		return &lines{steps: zst}, nil
	}
	return nil, fmt.Errorf("%s: not a form of experiences: want a name that ends in one of %s", path, strings.Join(Forms, " "))
}

// Close ends the archive.
func (w *Writer) Close() error {
	if w.to == nil {
		return nil
	}
	return w.to.close()
}

// moveAside renames what is at path to path with the first number behind it that nothing has.
func moveAside(path string) error {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", path, i)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return os.Rename(path, name)
		}
	}
}
