package dataset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/safetext"
)

// Entry names rows that a stage of a run reads, or experiences that it writes, for people who look at them.
type Entry struct {
	Key     string  // of the configuration
	Name    string  // of the taskset or buffer
	Kind    string  // [KindTasks], [KindLog], or the schema of a buffer's rows
	Path    string  // file, directory or database; "" if it is not on this machine
	Options Options // say which rows of the path are meant
	Format  Format
	Problem string // why the rows cannot be read; "" if they can
}

// The kinds of an [Entry] that are no schemas: the tasks of a taskset, and the log of a queue.
const (
	KindTasks = "tasks"
	KindLog   = "log"
)

// Browser reads rows for people who look at a dataset, also while a program appends to it. Unlike
// [Open] it reads no more than they ask for, and a damaged row does not end it. It holds no file.
type Browser struct {
	path    string
	files   []string
	folders *taskDir
	opts    Options
}

// Place is where a row begins. The zero Place is the first row.
type Place struct {
	File   int   // index of the file
	Offset int64 // JSON Lines: bytes before the row; other formats: rows before it
	Line   int   // JSON Lines: number of its line, from 1; 0 is 1
}

// Seen is a row that a [Browser] has read.
type Seen struct {
	Place Place
	Next  Place  // where the following row begins
	Where string // file and line, or row
	Text  []byte // JSON, valid during the visit; nil after an error
	Err   error  // why the row, or the rest of its file, cannot be read
}

// Row decodes the row.
func (s *Seen) Row() (map[string]any, error) { return decodeRow(s.Text) }

// browsedRow bounds a row that a Browser returns, in bytes of JSON.
const browsedRow = 16 << 20

var errBrowsed = fmt.Errorf("it has more than %d bytes", browsedRow)

// Browse finds the files of a dataset. It reads none.
func Browse(path string, opts Options) (*Browser, error) {
	b := &Browser{path: path, opts: opts}
	if dburl.IsURL(path) {
		return b, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case opts.TaskDir:
		s, err := openTaskDir(path)
		if err != nil {
			return nil, err
		}
		b.folders = s.(*taskDir)
	case info.IsDir():
		b.files, err = findSplit(path, opts.Split, opts.Subset)
	default:
		b.files = []string{path}
	}
	return b, err
}

// taker gets the JSON of a row, and the number by which its file calls it.
type taker func(number int, data []byte) error

// errStop ends a visit of rows.
var errStop = errors.New("no more rows are wanted")

// Rows calls visit for each row from a place on, until visit returns false. It returns the place
// after the last row, and whether no row follows there yet. An end of ctx is an error.
func (b *Browser) Rows(ctx context.Context, from Place, visit func(Seen) bool) (next Place, end bool, err error) {
	if from.File < 0 || from.Offset < 0 || from.Line < 0 {
		return from, false, errors.New("there is no such place in a dataset")
	}
	next = from
	see := func(s Seen) bool {
		next = s.Next
		return visit(s)
	}
	switch {
	case b.folders != nil:
		err = b.counted(ctx, 0, from, see, func(take taker) error { return b.eachFolder(ctx, take) })
	case b.files == nil:
		err = b.counted(ctx, 0, from, see, func(take taker) error { return b.eachRecord(ctx, take) })
	default:
		for file := from.File; file < len(b.files) && err == nil; file++ {
			if file > from.File {
				next = Place{File: file}
			}
			err = b.file(ctx, b.files[file], next, see)
		}
	}
	if errors.Is(err, errStop) {
		return next, false, nil
	}
	return next, true, err
}

// file reads a file from a place on.
func (b *Browser) file(ctx context.Context, path string, from Place, see func(Seen) bool) error {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(info)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		if !see(Seen{Place: from, Next: Place{File: from.File + 1}, Where: path, Err: err}) {
			return errStop
		}
		return nil
	}
	defer f.Close()
	format, compression := formatOf(path)
	if (format == ".jsonl" || format == ".ndjson") && compression == "" {
		return (&lineBrowser{path: path, file: from.File, size: info.Size(), queue: b.opts.Queue, see: see}).read(ctx, f, from)
	}
	return b.counted(ctx, from.File, from, see, func(take taker) error {
		untilEnd := readerAt(func(p []byte, off int64) (int, error) {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			return f.ReadAt(p, off)
		})
		in := &input{path, untilEnd, info.Size(), b.opts}
		if format == ".parquet" || format == ".arrow" {
			in.at = f // a child process reads it, which ends with ctx
		}
		in.opts.visit = take
		_, err := in.read(ctx)
		return err
	})
}

// readerAt reads at an offset.
type readerAt func(p []byte, off int64) (int, error)

// ReadAt implements [io.ReaderAt].
func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

// counted reads rows that have no offsets: it skips those before the place. An error of each is that
// of a row after which nothing can be read.
func (b *Browser) counted(ctx context.Context, file int, from Place, see func(Seen) bool, each func(take taker) error) error {
	rows, path := int64(0), safetext.Hidden(b.path)
	if b.files != nil {
		path = b.files[file]
	}
	err := each(func(number int, data []byte) error {
		if rows++; rows <= from.Offset {
			return nil
		}
		s := Seen{Place: Place{File: file, Offset: rows - 1}, Next: Place{File: file, Offset: rows}, Text: data, Where: placeIn(path, number)}
		if b.folders != nil {
			s.Where = b.folders.where(number)
		}
		if len(data) > browsedRow {
			s.Text, s.Err = nil, errBrowsed
		}
		if !see(s) {
			return errStop
		}
		return nil
	})
	switch {
	case err == nil || errors.Is(err, errStop):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: row %d was not reached in time: files of JSON Lines (.jsonl) open at any row", path, from.Offset+1)
	}
	if !see(Seen{Place: Place{File: file, Offset: rows}, Next: Place{File: file + 1}, Where: path, Err: err}) {
		return errStop
	}
	return nil
}

// placeIn names a line of a file of text, or a row.
func placeIn(path string, number int) string {
	unit := "row"
	if format, _ := formatOf(path); slices.Contains(texts, format) {
		unit = "line"
	}
	return place(path, unit, number)
}

// eachFolder reads the tasks of a directory.
func (b *Browser) eachFolder(ctx context.Context, take taker) error {
	for i := range b.folders.len() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, err := b.folders.row(i)
		if err != nil {
			return fmt.Errorf("%s: %w", b.folders.where(i), err)
		}
		if err := take(i, data); err != nil {
			return err
		}
	}
	return nil
}

// eachRecord reads a table or a query of a database.
func (b *Browser) eachRecord(ctx context.Context, take taker) error {
	address, err := dburl.Parse(b.path)
	if err != nil {
		return err
	}
	if b.opts.Subset == "" {
		return fmt.Errorf("%s: no table: set subset_name to a table or to a query", address)
	}
	db, err := database.Open(ctx, address, database.Options{ReadOnly: true, Untouched: true})
	if err != nil {
		return err
	}
	number := 0
	err = db.Stream(ctx, b.opts.Subset, func(columns []database.Column) error {
		number++
		data, err := rowOf(columns)
		if err != nil {
			return fmt.Errorf("row %d: %w", number, err)
		}
		return take(number, data)
	})
	return errors.Join(err, db.Close())
}

// lineBrowser reads JSON Lines.
type lineBrowser struct {
	path  string
	file  int
	size  int64
	queue bool // the line null is no row
	see   func(Seen) bool
}

// read reads the lines from a place on. The last line may be incomplete because a program still writes
// it: it is no row yet.
func (l *lineBrowser) read(ctx context.Context, f io.ReaderAt, from Place) error {
	if from.Offset > l.size {
		return fmt.Errorf("%s has become shorter: begin again with its first row", l.path)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from.Offset, l.size-from.Offset), 1<<20)
	at, number := from.Offset, max(1, from.Line)
	for {
		data, n, whole, err := readLine(ctx, r)
		if err != nil && !errors.Is(err, errBrowsed) {
			return err
		}
		s := Seen{Place: Place{l.file, at, number}, Next: Place{l.file, at + n, number + 1}, Where: place(l.path, "line", number)}
		if at == 0 {
			data = bytes.TrimPrefix(data, byteOrderMark)
		}
		at, number = s.Next.Offset, s.Next.Line
		if data = bytes.Trim(data, space); err == nil && len(data) > 0 {
			err = checkRow(data)
		}
		switch {
		case n == 0 || !whole && err != nil:
			return nil
		case len(data) == 0 && err == nil, l.queue && string(data) == "null":
			continue
		case err != nil:
			s.Err = err
		default:
			s.Text = data
		}
		if !l.see(s) {
			return errStop
		}
	}
}

// readLine returns a line, valid until the next one, its size n, and whether it ends with a line feed.
// It skips a line that is too long, which is the error errBrowsed.
func readLine(ctx context.Context, r *bufio.Reader) (line []byte, n int64, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		whole = err == nil
		more := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err != nil && !more && !errors.Is(err, io.EOF):
			return nil, n, false, err
		case ctx.Err() != nil:
			return nil, n, false, context.Cause(ctx)
		case n > browsedRow && !more:
			return nil, n, whole, errBrowsed
		case n > browsedRow:
			line = nil
		case !more && line == nil:
			return part, n, whole, nil
		default:
			line = append(line, part...)
		}
		if !more {
			return line, n, whole, nil
		}
	}
}
