package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lines is a JSON Lines file whose rows stay on the disk.
type lines struct {
	path  string
	marks marks
	rows  int
	size  int64 // bytes
}

func openLines(path string, opts Options) (shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	l := &lines{path: path, size: info.Size()}
	err = scanLines(counted(f, path, l.size, opts), func(begin int64, number int, data []byte) error {
		if err := checkRow(data); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		l.marks.add(mark{begin: begin, row: l.rows, number: number}, len(data))
		l.rows++
		return nil
	})
	if err != nil {
		return nil, inFile(path, err)
	}
	return l, nil
}

func (l *lines) len() int { return l.rows }

func (l *lines) row(i int) ([]byte, error) {
	_, data, err := l.find(i)
	return data, err
}

func (l *lines) where(i int) string {
	number, _, _ := l.find(i) // the line is known as far as the file could be read
	return place(l.path, "line", number)
}

// find reads the block of row i and counts its lines. It opens the file anew: a dataset lives as long as its run and need not hold a handle for
// so long.
func (l *lines) find(i int) (number int, data []byte, err error) {
	first, size := l.marks.find(i, l.size)
	f, err := os.Open(l.path)
	if err != nil {
		return first.number, nil, err
	}
	defer f.Close()
	block := make([]byte, size)
	n, readErr := f.ReadAt(block, first.begin)
	block = block[:n]
	number = first.number
	for row := first.row; ; number++ {
		data, rest, whole := bytes.Cut(block, []byte("\n"))
		trimmed := bytes.Trim(data, space)
		switch {
		case row == i && len(trimmed) > 0 && (whole || readErr == nil):
			return number, trimmed, nil
		case !whole:
			return number, nil, fmt.Errorf("the file has changed since it was opened: row %d is no more where it was", i)
		case len(trimmed) > 0:
			row++
		}
		block = rest
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// space is what JSON calls so.
const space = " \t\r\n"

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
		trimmed := bytes.TrimLeft(data, space)
		begin += int64(len(data) - len(trimmed))
		if trimmed = bytes.TrimRight(trimmed, space); len(trimmed) > 0 {
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
