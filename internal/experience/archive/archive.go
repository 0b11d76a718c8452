// Package archive keeps experiences step by step, for people and for other programs: in files, or
// as rows of the table trinity_archive of a database.
//
// An archive in files is a directory with one file per step, such as
// output.jsonl.zst/step-000000012.jsonl.zst. The ending of the directory's name says the form of
// the files: JSON Lines (.jsonl), compressed JSON Lines (.jsonl.gz, .jsonl.zst) or Parquet
// (.parquet). Package dataset reads the directory as one dataset.
//
// Write stores a step as a whole or not at all, and returns when the step is on the disk. Writing a
// step again replaces it: a run that was killed and explores a step again needs no other repair.
// Only one run may write an archive; package run gives each run a directory, or a name in a
// database, of its own.
//
// The images of experiences go into the archive's folder blobs, each once; a database has their digests
// alone.
//
// JSON Lines hold the JSON form of a trinity.Experience, see [experience.AppendJSON]. Parquet files
// and databases hold [experience.Row]s.
package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
)

// Writer writes the steps of one run to its archive.
type Writer struct{ to form }

// form is a place that stores steps.
type form interface {
	// write replaces what is stored of the step; without experiences it removes the step.
	write(ctx context.Context, step int64, exps []*trinity.Experience) error
	close() error
}

// New returns a writer of the archive in directory dir, in the form that dir ends in. It makes the
// directory. run is the directory of the run, which has the images of the experiences.
func New(dir, run string) (*Writer, error) {
	to, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	to.run = run
	return &Writer{to: to}, nil
}

// InDatabase connects to the database at a URL and returns a writer of the archive called name there. It
// makes the table if there is none. ctx lasts as long as the writer is used, see [database.Open]. After
// an error that may pass it tries again, as often as retries says, after an interval; say prints a line
// when the server is lost.
func InDatabase(ctx context.Context, url, name string, retries int, interval time.Duration, say func(string)) (*Writer, error) {
	a, err := dburl.Parse(url)
	if err != nil {
		return nil, err
	}
	if err := database.CheckName(name, "project, group, name or explorer.name"); err != nil {
		return nil, err
	}
	to, err := openRows(ctx, a, name, database.Options{Retries: retries, Interval: interval, Say: say})
	if err != nil {
		return nil, err
	}
	return &Writer{to: to}, nil
}

// Write stores the groups of a step in place of what is stored of it. If the groups hold no
// experience, it removes what a killed process may have stored of the step.
func (w *Writer) Write(ctx context.Context, step int64, groups []trinity.Group) error {
	exps := slices.Concat(groups...)
	if err := w.to.write(ctx, step, exps); err != nil {
		return fmt.Errorf("step %d: %w", step, err)
	}
	return nil
}

// Close releases the connection to the database, if there is one.
func (w *Writer) Close() error { return w.to.close() }
