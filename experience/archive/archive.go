// Package archive keeps experiences for people and for other programs, step by step: in files, as JSON Lines (.jsonl), compressed as well (.jsonl.gz,
// .jsonl.zst), and as Parquet (.parquet, a directory with a file for each step, which readers of Parquet take as one table); or in a database, as rows of
// the table trinity_archive.
//
// A step is in it whole or not at all, and on the disk when Write returns. JSON Lines hold the JSON form of a trinity.Experience, in which numbers that
// are not finite are left out, with all of the list where they are one per token. A row of Parquet has the columns id, step, task, run, turn, prompt, response, reward (null without a valid one), reason,
// model_version, oldest_version, truncated, prompt_tokens, response_tokens, and experience: all of it, exactly, in the form of package experience. A row of
// a database has them too, but that its id is a number, in the order of writing, and archive the name of the archive that it is of.
package archive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
)

// Forms are the endings of files.
var Forms = []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"}

// IsName reports whether a path ends like an archive's.
func IsName(path string) bool {
	return slices.ContainsFunc(Forms, func(form string) bool { return strings.HasSuffix(path, form) })
}

// Writer adds steps to an archive. One that is there is gone on with: a step that is explored again, because a kill threw the run back, takes the
// place of what the archive has of it and of later ones; an archive of which nothing would be left may be another run's and is moved aside first, to its
// name with a number behind it, and so is a file in which steps that were not to be written again are damaged. What is known to be another run's is moved aside
// in any case, and comes back when that run goes on.
type Writer struct {
	to    form
	begun bool
}

// form is how an archive is written.
type form interface {
	// open prepares to write from a step on: what there is of it, of later ones, and what is not whole gives way, or the archive is moved aside where
	// nothing else is in it.
	open(ctx context.Context, step int64) error
	// write adds a step, or more of the last one.
	write(ctx context.Context, step int64, exps []*trinity.Experience) error
	close() error
}

// New makes a writer of the run's file at path, of a form that is known by the path's ending. Nothing is opened before the first Write, or Lock.
func New(path string, run Run) *Writer { return &Writer{to: &owned{path: path, run: run}} }

// Lock refuses a file that another process is writing, before there is anything to write. In a database there is nothing to lock.
func (w *Writer) Lock() error {
	if o, ok := w.to.(*owned); ok {
		return o.lock()
	}
	return nil
}

// Claim is Lock, and brings the file that the run has written to its path, or makes room for it, before there is anything to write.
func (w *Writer) Claim() error {
	if o, ok := w.to.(*owned); ok {
		return o.claim()
	}
	return nil
}

// InDatabase makes a writer of the archive of that name in a database, which has the archives of many runs. It is connected to at once, and makes the
// table where there is none.
func InDatabase(ctx context.Context, a database.Address, name string, o database.Options) (*Writer, error) {
	if err := database.CheckName(name, "project, group, name or explorer.name"); err != nil {
		return nil, err
	}
	to, err := openRows(ctx, a, name, o)
	if err != nil {
		return nil, err
	}
	return &Writer{to: to}, nil
}

// Write adds the groups of a step. One that nothing is left of makes room all the same: it may have left something before a kill.
func (w *Writer) Write(ctx context.Context, step int64, groups []trinity.Group) error {
	if !w.begun {
		if err := w.to.open(ctx, step); err != nil {
			return err
		}
		w.begun = true
	}
	exps := slices.Concat(groups...)
	if len(exps) == 0 {
		return nil
	}
	return w.to.write(ctx, step, exps)
}

func layoutOf(path string) (layout, error) {
	switch {
	case strings.HasSuffix(path, ".parquet"):
		return &table{dir: path}, nil
	case strings.HasSuffix(path, ".jsonl"):
		return &lines{path: path, steps: plain{}}, nil
	case strings.HasSuffix(path, ".jsonl.gz"):
		return &lines{path: path, steps: gz}, nil
	case strings.HasSuffix(path, ".jsonl.zst"):
		return &lines{path: path, steps: zst}, nil
	}
	return nil, fmt.Errorf("%s: not a form of experiences: want a name that ends in one of %s", path, strings.Join(Forms, " "))
}

// Close ends the archive.
func (w *Writer) Close() error { return w.to.close() }
