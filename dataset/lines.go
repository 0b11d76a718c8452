package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// line is where a row is in its file.
type line struct {
	begin  int64
	size   int32 // bytes, at most maxRow
	number int32 // from 1; blank lines count
}

// lines is a JSON Lines file whose rows stay on the disk.
type lines struct {
	path  string
	index []line
}

func openLines(path string) (shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &lines{path: path}
	err = scanLines(f, func(begin int64, number int, data []byte) error {
		if err := checkRow(data); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		l.index = append(l.index, line{begin: begin, size: int32(len(data)), number: int32(number)})
		return nil
	})
	if err != nil {
		return nil, inFile(path, err)
	}
	return l, nil
}

func (l *lines) len() int { return len(l.index) }

func (l *lines) where(i int) string { return fmt.Sprintf("%s:%d", l.path, l.index[i].number) }

// row opens the file anew: a dataset lives as long as its run and need not hold a handle for so long.
func (l *lines) row(i int) ([]byte, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, l.index[i].size)
	if _, err := f.ReadAt(data, l.index[i].begin); err != nil {
		return nil, fmt.Errorf("the file has changed since it was opened: %w", err)
	}
	return data, nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// scanLines calls visit for every line that is not blank, without the space around it. begin is its first byte in r; data is valid during the
// call.
func scanLines(r io.Reader, visit func(begin int64, number int, data []byte) error) error {
	br := bufio.NewReaderSize(r, 1<<20)
	var at int64
	var long []byte // of a line that exceeds the reader's buffer
	for number := 1; ; number++ {
		data, err := br.ReadSlice('\n')
		for long = long[:0]; errors.Is(err, bufio.ErrBufferFull); data, err = br.ReadSlice('\n') {
			if long = append(long, data...); len(long) > maxRow {
				return &lineError{number, errLong}
			}
		}
		if len(long) > 0 {
			long = append(long, data...)
			data = long
		}
		begin := at
		at += int64(len(data))
		if number == 1 && bytes.HasPrefix(data, byteOrderMark) {
			begin, data = begin+int64(len(byteOrderMark)), data[len(byteOrderMark):]
		}
		trimmed := bytes.TrimLeft(data, " \t\r\n")
		begin += int64(len(data) - len(trimmed))
		if trimmed = bytes.TrimRight(trimmed, " \t\r\n"); len(trimmed) > 0 {
			if err := visit(begin, number, trimmed); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &lineError{number, err}
		}
	}
}

var errLong = fmt.Errorf("row of more than %d bytes", maxRow)

// lineError is an error at a line of a file that is named later.
type lineError struct {
	number int
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// inFile puts path before an error that has only a line.
func inFile(path string, err error) error {
	var le *lineError
	if errors.As(err, &le) {
		return fmt.Errorf("%s:%d: %w", path, le.number, le.err)
	}
	return err
}
