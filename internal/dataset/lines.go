package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// lines is a JSON Lines file. Its rows stay on the disk.
type lines struct {
	path  string
	marks marks
	rows  int
	size  int64 // bytes
	last  block
}

// indexLines finds the offsets of a file's rows, which are read when they are needed.
func indexLines(in *input) (shard, error) {
	l := &lines{path: in.path, size: in.size}
	err := scanRows(in, func(begin int64, number int, data []byte) error {
		l.marks.add(mark{Begin: begin, Row: l.rows, Number: number}, len(data))
		l.rows++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// readLines spools the rows of a file without random access.
func readLines(in *input) (shard, error) {
	return spooled(in, "line", func(s *spool) error {
		return scanRows(in, func(_ int64, number int, data []byte) error { return s.add(number, data) })
	})
}

// scanRows calls visit for every row of JSON Lines, as [scanLines] does for every line.
func scanRows(in *input, visit func(begin int64, number int, data []byte) error) error {
	r, err := in.text()
	if err != nil {
		return err
	}
	defer r.Close()
	var rows rowLines
	err = scanLines(r, 1, func(begin int64, number int, data []byte) error {
		if ok, err := rows.check(number, data); err != nil || !ok {
			return err
		}
		return visit(begin, number, data)
	})
	return inFile(in.path, cmp.Or(err, rows.end()))
}

func (l *lines) len() int { return l.rows }

func (l *lines) row(i int) ([]byte, error) {
	_, data, err := l.find(i)
	return data, err
}

func (l *lines) where(i int) string {
	number, _, _ := l.find(i) // after an error, the last line that could be read
	return place(l.path, "line", number)
}

func (l *lines) folder(int) string { return filepath.Dir(l.path) }

// find returns row i and its line number, by counting the lines of its block.
func (l *lines) find(i int) (number int, data []byte, err error) {
	b := &l.last
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.seek(l.marks, i, l.size, l.read); err != nil {
		return b.number, nil, err
	}
	for ; ; b.number++ {
		line, rest, whole := bytes.Cut(b.rest, []byte("\n"))
		trimmed := bytes.Trim(line, space)
		if !whole && (len(trimmed) == 0 || b.short) {
			b.rest = nil
			return b.number, nil, fmt.Errorf("the file has changed since it was opened: row %d is no more where it was", i)
		}
		b.rest = rest
		if len(trimmed) == 0 {
			continue
		}
		if b.row++; b.row > i {
			b.number++
			return b.number - 1, trimmed, nil
		}
	}
}

// read opens the file each time: a dataset lives as long as its run and should not hold a handle
// for so long.
func (l *lines) read(begin, size int64) ([]byte, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAt(f, begin, size)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func skipByteOrderMark(r *bufio.Reader) {
	if mark, err := r.Peek(len(byteOrderMark)); err == nil && bytes.Equal(mark, byteOrderMark) {
		_, _ = r.Discard(len(byteOrderMark)) // just peeked
	}
}

// space is the whitespace of JSON.
const space = " \t\r\n"

// scanLines calls visit for every line that is not blank, without the space around it. first is the
// number of the first line. begin is the line's first byte in r; data is valid during the call.
func scanLines(r io.Reader, first int, visit func(begin int64, number int, data []byte) error) error {
	br := bufio.NewReaderSize(r, 1<<20)
	var at int64
	var long []byte // of a line that exceeds the reader's buffer
	for number := first; ; number++ {
		data, err := br.ReadSlice('\n')
		for long = long[:0]; errors.Is(err, bufio.ErrBufferFull); data, err = br.ReadSlice('\n') {
			if long = append(long, data...); len(long) > maxRow {
				return &lineError{number, errLong}
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return &lineError{number, err}
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
		if err != nil {
			return nil
		}
	}
}

var errLong = fmt.Errorf("row of more than %d bytes", maxRow)

// lineError is an error at a line. inFile adds the file.
type lineError struct {
	number int
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// inFile adds the path to a lineError.
func inFile(path string, err error) error {
	var le *lineError
	if errors.As(err, &le) {
		return fmt.Errorf("%s:%d: %w", path, le.number, le.err)
	}
	return err
}
