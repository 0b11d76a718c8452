package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// form is what the files of one kind have.
type form struct {
	schema *parquet.Schema // of this version
	needed []string        // columns that every reader needs
}

var (
	trainedForm   = form{parquet.SchemaOf(Row{}), []string{"id", "task", "update", "tokens"}}
	evaluatedForm = form{parquet.SchemaOf(Evaluated{}), []string{"step", "taskset", "row", "response"}}
)

// fits tells whether a file has the columns that every reader needs, and those that it has of this version's in the
// same types. What it has beside them is ignored, and what it lacks is empty.
func (f *form) fits(schema *parquet.Schema) error {
	for _, path := range f.schema.Columns() {
		want, _ := f.schema.Lookup(path...)
		got, ok := schema.Lookup(path...)
		if !ok && slices.Contains(f.needed, path[0]) || ok && got.Node.Type().Kind() != want.Node.Type().Kind() {
			return fmt.Errorf("another version has written it, without a column %q of the type %s", strings.Join(path, "."), want.Node.Type())
		}
	}
	return nil
}

// readTable reads rows with all columns of the file or some.
func readTable[T any](path string, of *form) (rows []T, err error) {
	err = openTable(path, of, func(file *parquet.File) (err error) {
		rows, err = readRows[T](file)
		return err
	}, parquet.SkipPageIndex(true))
	return rows, err
}

func readRows[T any](file *parquet.File) (rows []T, err error) {
	table := parquet.NewGenericReader[T](file)
	defer table.Close()
	for {
		batch := make([]T, 64)
		n, err := table.Read(batch)
		rows = append(rows, batch[:n]...)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err == nil && n == 0 {
			err = io.ErrNoProgress
		}
		if err != nil {
			return nil, err
		}
	}
}

// openTable calls use with a file of this form.
func openTable(path string, of *form, use func(*parquet.File) error, options ...parquet.FileOption) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library's, at a damaged file
			err = errors.New("its schema or its pages are damaged")
		}
		if err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			err = fmt.Errorf("%s: %s", path, text)
		}
	}()
	in, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer in.Close()
	file, err := parquet.OpenFile(in, size, append(options, parquet.SkipBloomFilters(true))...)
	if err != nil {
		return err
	}
	if err := of.fits(file.Schema()); err != nil {
		return err
	}
	return use(file)
}

// openRegular opens a file unless it is a pipe, whose opening waits for its writer, or a device. The error has no path.
func openRegular(path string) (in *os.File, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, errors.Unwrap(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is no regular file")
	}
	if in, err = os.Open(path); err != nil {
		return nil, 0, errors.Unwrap(err)
	}
	return in, info.Size(), nil
}
