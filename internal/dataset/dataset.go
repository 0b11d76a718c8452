// Package dataset reads the rows of tasksets and of offline training data: JSON Lines, JSON, CSV,
// Parquet and Arrow files, single or in the directory layouts of Hugging Face datasets, and tables
// of databases.
//
// All formats give the same types: string, bool, nil, int64, float64, json.Number, []any and
// map[string]any. A number is an int64 or a float64 if that writes the digits of the file, else, as
// 3.0 and 10 to the 20th are, a json.Number.
package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
)

// Options say what to open in a directory.
type Options struct {
	Split  string // "" means train
	Subset string // of a dataset that has several; of a database, the table or a query
	// TaskDir says that the path is a directory with a folder for each task. Such a directory has
	// neither splits nor subsets.
	TaskDir bool
	// Queue says that the line null ends the rows, see [Queue]. Only a [Browser] reads it.
	Queue bool
	// Resolve returns the directory for a name that is not a local path, such as a hub dataset.
	// Without it, only local paths work.
	Resolve func(name string) (dir string, err error)
	// Scratch is the directory of temporary files for rows that exceed the memory limit; "" is the
	// system's.
	Scratch string
	// Progress reports how much of a file was read, in bytes or, for some formats, in rows. It may
	// be nil.
	Progress func(file string, done, total int64)
	// Note prints lines for people, such as that a database is lost. It may be nil.
	Note func(line string)

	// Retries is the number of retries when a database cannot be reached, or is lost.
	Retries       int
	RetryInterval time.Duration

	held int64 // bytes of rows of one file that may stay in memory; 0 is heldBytes
	// visit gets each row instead of the memory, see [Browser]; nil keeps the rows.
	visit func(number int, data []byte) error
}

// large returns how many bytes of rows of one file stay in memory; further rows go to a temporary
// file.
func (o *Options) large() int64 {
	if o.held > 0 {
		return o.held
	}
	return heldBytes
}

// Dataset holds the rows of one split, in one file or several. It is safe for concurrent use.
type Dataset struct {
	name   string
	shards []shard
	starts []int   // first row of each shard, and the number of all rows
	images *Images // nil if rows are as they are in their files
}

// shard holds the rows of one file, each a JSON object.
type shard interface {
	len() int
	row(i int) ([]byte, error)
	where(i int) string  // file and line, for errors
	folder(i int) string // that paths in the row begin in; "" if it is in no file
}

// maxRow bounds a row, in bytes of JSON.
const maxRow = 64 << 20

// Open opens the rows of path: a file, a directory, the URL of a database, or a name that
// opts.Resolve turns into a path. It checks that every row is a JSON object. The end of ctx ends
// the wait for a database, and for a decoder.
func Open(ctx context.Context, path string, opts Options) (*Dataset, error) {
	if path == "" {
		return nil, errors.New("no path: name a file (.jsonl, .json, .csv, .parquet, .arrow), a directory or a hub dataset")
	}
	if dburl.IsURL(path) {
		return openDatabase(ctx, path, opts)
	}
	name := strings.TrimRight(path, `/\`)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && opts.Resolve != nil {
		if path, err = opts.Resolve(path); err != nil {
			return nil, err
		}
		info, err = os.Stat(path)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	base := filepath.Base(name)
	d := &Dataset{name: strings.TrimSuffix(base, extension(base)), starts: []int{0}}
	if opts.TaskDir {
		s, err := openTaskDir(path)
		if err != nil {
			return nil, err
		}
		d.add(s)
		return d, nil
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = findSplit(path, opts.Split, opts.Subset); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		s, err := openShard(ctx, f, opts)
		if err != nil {
			return nil, err
		}
		d.add(s)
	}
	return d, nil
}

// Find returns the errors that [Open] would return before it reads a file: a directory without the
// split, or with missing shards.
func Find(path string, opts Options) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() || opts.TaskDir {
		return err
	}
	_, err := findSplit(path, opts.Split, opts.Subset)
	return err
}

func (d *Dataset) add(s shard) {
	d.shards = append(d.shards, s)
	d.starts = append(d.starts, d.Len()+s.len())
}

// Name returns the base name of the file or directory, without extension.
func (d *Dataset) Name() string { return d.name }

// Len returns the number of rows.
func (d *Dataset) Len() int { return d.starts[len(d.starts)-1] }

// Row decodes row i, from 0.
func (d *Dataset) Row(i int) (map[string]any, error) {
	s, at, err := d.find(i)
	if err != nil {
		return nil, err
	}
	data, err := s.row(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where(at), err)
	}
	row, err := decodeRow(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where(at), err)
	}
	if d.images != nil {
		if row[d.images.Key], err = d.images.Of(i); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// Where returns the file and line (or row) of row i, for errors.
func (d *Dataset) Where(i int) string {
	s, at, err := d.find(i)
	if err != nil {
		return d.name
	}
	return s.where(at)
}

func (d *Dataset) folder(i int) string {
	s, at, err := d.find(i)
	if err != nil {
		return ""
	}
	return s.folder(at)
}

func (d *Dataset) find(i int) (s shard, row int, err error) {
	if i < 0 || i >= d.Len() {
		return nil, 0, fmt.Errorf("dataset %s has no row %d: it has %d rows", d.name, i, d.Len())
	}
	k := sort.SearchInts(d.starts, i+1) - 1
	return d.shards[k], i - d.starts[k], nil
}

// decodeRow decodes one JSON object.
func decodeRow(data []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var row map[string]any
	if err := dec.Decode(&row); err != nil {
		return nil, err
	}
	if row == nil {
		return nil, errors.New("null, want a JSON object")
	}
	numbers(row)
	return row, nil
}

// checkRow returns an error if data is not a row.
func checkRow(data []byte) error {
	if len(data) > maxRow {
		return errLong
	}
	if !json.Valid(data) {
		return fmt.Errorf("not JSON: %w%s", syntaxError(data), repairOf(data))
	}
	if data[0] != '{' {
		return fmt.Errorf("%.20q is no JSON object: every row is one", data)
	}
	return checkJSON(data)
}

func syntaxError(data []byte) error {
	var v json.RawMessage
	return json.Unmarshal(data, &v)
}
