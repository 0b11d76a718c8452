package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// heldBytes is how much decoded text of one file is held in memory; the rows of a larger one go to a temporary file.
const heldBytes = 64 << 20

// spool is the rows of a file that cannot be read at any place of itself (compressed, columns, tables), as records of number, size and JSON:
// in memory while they are few, else in a file that nobody else sees and that goes with the process.
type spool struct {
	path  string
	unit  string // what rows are counted in: "line", or "row" for formats without lines
	dir   string
	limit int64 // bytes held

	marks marks
	rows  int
	size  int64 // bytes of all records
	text  []byte
	file  *os.File // nil while text has all
	out   *bufio.Writer
}

// spooled makes a shard of the rows that fill adds.
func spooled(path, unit string, opts Options, fill func(*spool) error) (shard, error) {
	s := &spool{path: path, unit: unit, dir: opts.Scratch, limit: opts.held}
	if s.limit == 0 {
		s.limit = heldBytes
	}
	if err := fill(s); err != nil {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
		return nil, err
	}
	if s.out == nil {
		return s, nil
	}
	err := s.out.Flush()
	s.out = nil
	return s, s.scratchError(err)
}

// add appends a row. data is copied.
func (s *spool) add(number int, data []byte) error {
	if len(data) > maxRow {
		return fmt.Errorf("%s: %w", s.at(number), errLong)
	}
	s.marks.add(mark{begin: s.size, row: s.rows, number: number}, len(data))
	var head [2 * binary.MaxVarintLen64]byte
	record := binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(number)), uint64(len(data)))
	s.rows++
	s.size += int64(len(record) + len(data))
	if s.file == nil && s.size > s.limit {
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

// spill moves what is held to a file, whose name is taken away at once so that no kill leaves it behind.
func (s *spool) spill() error {
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return err
		}
	}
	f, err := os.CreateTemp(s.dir, "rows-*")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // where an open file keeps its name, the system's cleaning of temporary files takes it
	s.file, s.out = f, bufio.NewWriterSize(f, 1<<20)
	_, err = s.out.Write(s.text)
	s.text = nil
	return err
}

func (s *spool) scratchError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: its rows are too many for memory and go to a temporary file: %w: set buffer.cache_dir or TMPDIR to where there is room", s.path, err)
}

func (s *spool) len() int { return s.rows }

func (s *spool) row(i int) ([]byte, error) {
	_, data, err := s.record(i)
	return data, err
}

func (s *spool) where(i int) string {
	number, _, err := s.record(i)
	if err != nil {
		return s.path
	}
	return s.at(number)
}

// record is the number and the JSON of row i.
func (s *spool) record(i int) (number int, data []byte, err error) {
	first, size := s.marks.find(i, s.size)
	var block []byte
	if s.file == nil {
		block = s.text[first.begin:]
	} else {
		block = make([]byte, size)
		if _, err := s.file.ReadAt(block, first.begin); err != nil {
			return 0, nil, fmt.Errorf("%s: temporary file of its rows: %w", s.path, err)
		}
	}
	for row := first.row; ; row++ {
		n, head := binary.Uvarint(block)
		length, more := binary.Uvarint(block[head:])
		begin := head + more
		end := begin + int(length)
		if row == i {
			return int(n), block[begin:end], nil
		}
		block = block[end:]
	}
}

func (s *spool) at(number int) string { return place(s.path, s.unit, number) }

// place names a line or row of a file.
func place(path, unit string, number int) string {
	if unit == "line" {
		return fmt.Sprintf("%s:%d", path, number)
	}
	return fmt.Sprintf("%s, row %d", path, number)
}
