package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
)

// heldBytes is how much decoded text of one file is held in memory; the rows of a larger one go to a temporary file.
const heldBytes = 64 << 20

// spool is the rows of a file that cannot be read at any place of itself (compressed, columns, tables), as records of number, size and JSON:
// in memory while they are few, else in a file, which goes with the process where it is not kept.
type spool struct {
	path string
	unit string // what rows are counted in: "line", or "row" for formats without lines
	opts Options

	marks marks
	sums  []uint32 // CRC-32C of the blocks of marks
	rows  int
	size  int64 // bytes of all records
	text  []byte
	file  *os.File // nil while text has all
	out   *bufio.Writer
	last  block
	anew  bool // the file was damaged and the rows were read anew, or could not be
}

// spooled makes a shard of the rows that fill adds.
func spooled(in *input, unit string, fill func(*spool) error) (shard, error) {
	s := &spool{path: in.path, unit: unit, opts: in.opts}
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

// add appends a row. data is copied.
func (s *spool) add(number int, data []byte) error {
	if len(data) > maxRow {
		return fmt.Errorf("%s: %w", s.at(number), errLong)
	}
	if s.marks.add(mark{Begin: s.size, Row: s.rows, Number: number}, len(data)) {
		s.sums = append(s.sums, 0)
	}
	var head [2 * binary.MaxVarintLen64]byte
	record := binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(number)), uint64(len(data)))
	sum := &s.sums[len(s.sums)-1]
	*sum = crc32.Update(crc32.Update(*sum, castagnoli, record), castagnoli, data)
	s.rows++
	s.size += int64(len(record) + len(data))
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

// spill moves what is held to a file.
func (s *spool) spill() (err error) {
	if s.file, err = s.opts.kept.create(); err != nil {
		return err
	}
	s.out = bufio.NewWriterSize(s.file, 1<<20)
	_, err = s.out.Write(s.text)
	s.text = nil
	return err
}

func (s *spool) scratchError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: its rows are too many for memory and go to a file: %w: set buffer.cache_dir or TMPDIR to where there is room", s.path, err)
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
	b := &s.last
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.seek(s.marks, i, s.size, s.read); err != nil {
		if err = s.readAnew(err); err == nil {
			err = b.seek(s.marks, i, s.size, s.read)
		}
		if err != nil {
			return 0, nil, fmt.Errorf("the file of its rows: %w", err)
		}
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
	k := sort.Search(len(s.marks), func(k int) bool { return s.marks[k].Begin >= begin })
	if err == nil && crc32.Checksum(data, castagnoli) != s.sums[k] {
		err = fmt.Errorf("its checksum is wrong, bytes %d to %d", begin, begin+size)
	}
	return data, err
}

// readAnew replaces rows that were kept and are damaged by those of the file that they are of; once, for a disk may be broken.
func (s *spool) readAnew(why error) error {
	if s.opts.kept.path == "" || s.anew {
		return why
	}
	s.anew = true
	fresh, err := s.opts.kept.readAnew(s.opts, why)
	if err != nil {
		return err
	}
	if fresh.rows != s.rows {
		return fmt.Errorf("%w; read again, the dataset has %d rows where it had %d: it has changed", why, fresh.rows, s.rows)
	}
	_ = s.file.Close() // it was only read
	s.marks, s.sums, s.size, s.text, s.file = fresh.marks, fresh.sums, fresh.size, fresh.text, fresh.file
	s.last.rest = nil
	return nil
}

func (s *spool) at(number int) string { return place(s.path, s.unit, number) }

// place names a line or row of a file.
func place(path, unit string, number int) string {
	if unit == "line" {
		return fmt.Sprintf("%s:%d", path, number)
	}
	return fmt.Sprintf("%s, row %d", path, number)
}
