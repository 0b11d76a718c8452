package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// heldBytes is how many bytes of decoded rows of one file stay in memory. The rows of a larger
// file go to a temporary file.
const heldBytes = 64 << 20

// maxExpansion bounds the bytes of a file's rows if they exceed 1 GiB, as a multiple of the file's size.
const maxExpansion = 10_000

// spool holds the rows of a file that has no random access (compressed, columns, tables), as
// records of number, size and JSON: in memory while they are few, else in a temporary file that
// vanishes with the process.
type spool struct {
	path string
	in   string // the folder of the file; "" for a table of a database
	unit string // what rows are counted in: "line", or "row" for formats without lines
	opts Options

	marks marks
	rows  int
	size  int64 // bytes of all records
	most  int64 // of them that the file may give; 0 for any number
	text  []byte
	file  *os.File // nil while text has all
	out   *bufio.Writer
	last  block
}

// spooled makes a shard of the rows that fill adds.
func spooled(in *input, unit string, fill func(*spool) error) (shard, error) {
	s := &spool{path: in.path, unit: unit, opts: in.opts}
	if in.size > 0 {
		s.most, s.in = max(maxExpansion*in.size, 16*in.opts.large()), filepath.Dir(in.path)
	}
	err := fill(s)
	if err == nil && s.out != nil {
		err = s.scratchError(s.out.Flush())
	}
	if err != nil {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
		return nil, err
	}
	return s, nil
}

// add appends a copy of data as a row.
func (s *spool) add(number int, data []byte) error {
	if len(data) > maxRow {
		return fmt.Errorf("%s: %w", s.at(number), errLong)
	}
	if s.opts.visit != nil {
		s.rows++
		return s.opts.visit(number, data)
	}
	s.marks.add(mark{Begin: s.size, Row: s.rows, Number: number}, len(data))
	var head [2 * binary.MaxVarintLen64]byte
	record := binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(number)), uint64(len(data)))
	s.rows++
	if s.size += int64(len(record) + len(data)); s.most > 0 && s.size > s.most {
		return fmt.Errorf("%s: its rows are more than %d times as long as the file: it is damaged, or made to fill the disk",
			s.path, maxExpansion)
	}
	if s.file == nil && s.size > s.opts.large() {
		if err := s.spill(); err != nil {
			return s.scratchError(err)
		}
	}
	if s.file == nil {
		s.text = append(append(s.text, record...), data...)
		return nil
	}
	_, err := s.out.Write(record)
	if err == nil {
		_, err = s.out.Write(data)
	}
	return s.scratchError(err)
}

// spill moves the rows in memory to a temporary file. The file loses its name at once, so that no
// kill leaves it behind.
func (s *spool) spill() (err error) {
	if dir := s.opts.Scratch; dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if s.file, err = os.CreateTemp(s.opts.Scratch, "rows-*"); err != nil {
		return err
	}
	_ = os.Remove(s.file.Name()) // some systems refuse while the file is open; their cleaning takes it later
	s.out = bufio.NewWriterSize(s.file, 1<<20)
	_, err = s.out.Write(s.text)
	s.text = nil
	return err
}

func (s *spool) scratchError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: its rows exceed the memory limit and go to a temporary file: %w: set buffer.cache_dir or TMPDIR to a disk "+
		"with room", s.path, err)
}

func (s *spool) len() int { return s.rows }

func (s *spool) row(i int) ([]byte, error) {
	_, data, err := s.record(i)
	return data, err
}

func (s *spool) folder(int) string { return s.in }

func (s *spool) where(i int) string {
	number, _, err := s.record(i)
	if err != nil {
		return s.path
	}
	return s.at(number)
}

// record returns the number and the JSON of row i.
func (s *spool) record(i int) (number int, data []byte, err error) {
	b := &s.last
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.seek(s.marks, i, s.size, s.read); err != nil {
		return 0, nil, fmt.Errorf("read the temporary file of its rows: %w", err)
	}
	for {
		n, head := binary.Uvarint(b.rest)
		length, more := binary.Uvarint(b.rest[head:])
		begin := head + more
		end := begin + int(length)
		data, b.rest = b.rest[begin:end], b.rest[end:]
		if b.row++; b.row > i {
			return int(n), data, nil
		}
	}
}

func (s *spool) read(begin, size int64) ([]byte, error) {
	if s.file == nil {
		return s.text[begin : begin+size], nil
	}
	data, err := readAt(s.file, begin, size)
	if err == nil && int64(len(data)) < size {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

func (s *spool) at(number int) string { return place(s.path, s.unit, number) }

// place returns the name of a line or row of a file, for errors.
func place(path, unit string, number int) string {
	if unit == "line" {
		return fmt.Sprintf("%s:%d", path, number)
	}
	return fmt.Sprintf("%s, row %d", path, number)
}
