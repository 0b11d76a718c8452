package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"path/filepath"
)

// LogReader reads the records of a log in order, also while another process appends to it.
type LogReader struct {
	dir    string
	skip   int64    // number of the first record to return
	file   *os.File // the current segment; nil before the first
	first  int64    // number of the first record in file
	offset int64    // of the next record in file
	next   int64    // number of the next record
	buffer []byte
}

// ReadLog returns a reader of the log in a directory that begins with record from. The directory
// need not exist yet.
func ReadLog(dir string, from int64) *LogReader { return &LogReader{dir: dir, skip: from} }

// Next returns the next record, which is valid until the next call. If no whole record follows, it
// returns io.EOF; there may be one later.
func (r *LogReader) Next() ([]byte, error) {
	for {
		if r.file == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		record, err := r.record()
		if errors.Is(err, io.EOF) {
			moved, moveErr := r.advance()
			if moveErr != nil {
				return nil, moveErr
			}
			if !moved {
				return nil, io.EOF
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		r.offset += frameBytes + int64(len(record))
		r.next++
		if r.next > r.skip {
			return record, nil
		}
	}
}

// Skip passes over the damaged record that Next has an error for. It returns io.EOF if nothing follows:
// not even the next segment tells where the record ends.
func (r *LogReader) Skip() error {
	all, err := segments(r.dir)
	if err != nil || r.file == nil {
		return errors.Join(err, io.EOF)
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if length, _, err := r.frame(info.Size()); err == nil && r.offset > 0 {
		r.offset += frameBytes + length
		r.next++
		return nil
	}
	i := slices.IndexFunc(all, func(first int64) bool { return first > r.first })
	if i < 0 {
		return io.EOF
	}
	if err := r.file.Close(); err != nil {
		return err
	}
	return r.enter(all[i])
}

// LogBegins returns the number of the first record of the log in a directory; 0 of an empty one.
func LogBegins(dir string) (int64, error) {
	all, err := segments(dir)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0], nil
}

// Number returns the number of the record that Next returns next.
func (r *LogReader) Number() int64 { return max(r.next, r.skip) }

// open opens the segment that holds the first record to return.
func (r *LogReader) open() error {
	all, err := segments(r.dir)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return io.EOF
	}
	i, found := slices.BinarySearch(all, r.skip)
	if !found {
		i--
	}
	if i < 0 {
		return fmt.Errorf("%s begins with record %d: record %d has been removed", r.dir, all[0], r.skip)
	}
	return r.enter(all[i])
}

func (r *LogReader) enter(first int64) error {
	f, _, err := OpenWithin(r.dir, filepath.Base(segmentPath(r.dir, first)))
	if err != nil {
		return err
	}
	r.file, r.first, r.next, r.offset = f, first, first, 0
	return nil
}

// advance opens the following segment and reports whether there is one. If there is, the current
// segment is complete.
func (r *LogReader) advance() (bool, error) {
	all, err := segments(r.dir)
	if err != nil {
		return false, err
	}
	i, found := slices.BinarySearch(all, r.first)
	if found {
		i++
	}
	switch {
	case i == len(all):
		return false, nil
	case all[i] != r.next:
		return true, r.wrote(all[i])
	}
	if err := r.whole(); err != nil {
		return false, err
	}
	if err := r.file.Close(); err != nil {
		return false, err
	}
	return true, r.enter(r.next)
}

// wrote looks again for a record that was missing in a segment that another one follows. It was
// written meanwhile, or it is lost.
func (r *LogReader) wrote(following int64) error {
	_, err := r.record()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: record %d is missing, and the log continues with record %d: a file was cut or removed",
			r.file.Name(), r.next, following)
	}
	return err
}

// whole reports whether the segment ends with its last record.
func (r *LogReader) whole() error {
	info, err := r.file.Stat()
	if err == nil && info.Size() != r.offset {
		err = r.damaged()
	}
	return err
}

// record reads the record at the offset. It returns io.EOF if the record is missing or incomplete.
func (r *LogReader) record() ([]byte, error) {
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if r.offset == 0 {
		if err := r.begins(size); err != nil {
			return nil, err
		}
	}
	length, sum, err := r.frame(size)
	if err != nil {
		return nil, err
	}
	end := r.offset + frameBytes + length
	r.buffer = slices.Grow(r.buffer[:0], int(length))[:length]
	if _, err := r.file.ReadAt(r.buffer, r.offset+frameBytes); err != nil {
		return nil, err
	}
	if crc32.Checksum(r.buffer, castagnoli) != sum {
		if end == size {
			return nil, io.EOF // its frame is on the disk, but not all of its bytes
		}
		return nil, r.damaged()
	}
	return r.buffer, nil
}

// frame reads the length and the checksum of the record at the offset.
func (r *LogReader) frame(size int64) (length int64, sum uint32, err error) {
	var frame [frameBytes]byte
	if size < r.offset+frameBytes {
		return 0, 0, io.EOF
	}
	if _, err := r.file.ReadAt(frame[:], r.offset); err != nil {
		return 0, 0, err
	}
	if crc32.Checksum(frame[:8], castagnoli) != binary.LittleEndian.Uint32(frame[8:]) {
		return 0, 0, r.unwritten(r.offset+frameBytes, size)
	}
	length, sum = int64(binary.LittleEndian.Uint32(frame[:])), binary.LittleEndian.Uint32(frame[4:])
	if r.offset+frameBytes+length > size {
		return 0, 0, io.EOF
	}
	return length, sum, nil
}

// begins checks and skips the segment's magic.
func (r *LogReader) begins(size int64) error {
	if size < int64(len(segmentMagic)) {
		return io.EOF
	}
	var magic [len(segmentMagic)]byte
	if _, err := r.file.ReadAt(magic[:], 0); err != nil {
		return err
	}
	switch string(magic[:]) {
	case segmentMagic:
	case string(make([]byte, len(magic))):
		return r.unwritten(int64(len(magic)), size)
	default:
		return fmt.Errorf("%s is not a segment of a log: its first bytes are wrong", r.file.Name())
	}
	r.offset = int64(len(segmentMagic))
	return nil
}

// unwritten returns io.EOF if the segment holds only zeros from some offset on: a process extended
// the file and was killed before it had written the record. Otherwise the record is damaged.
func (r *LogReader) unwritten(from, size int64) error {
	rest := make([]byte, size-from)
	if _, err := r.file.ReadAt(rest, from); err != nil {
		return err
	}
	if bytes.ContainsFunc(rest, func(b rune) bool { return b != 0 }) {
		return r.damaged()
	}
	return io.EOF
}

// damaged describes the record at the offset, and what to do about it. Behind the last segment's end
// there may be bytes that are no record at all.
func (r *LogReader) damaged() error {
	advice := "bring the file back from a copy"
	if all, err := segments(r.dir); err == nil && len(all) > 0 && all[len(all)-1] == r.first {
		advice += fmt.Sprintf(", or give up what follows byte %d with `truncate -s %d %s`", r.offset, r.offset, r.file.Name())
	}
	return fmt.Errorf("%s: record %d, at byte %d, is damaged: its checksum is wrong; what is before it is whole: %s",
		r.file.Name(), r.next, r.offset, advice)
}

// Close closes the current segment.
func (r *LogReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// segments returns the numbers of the first records of a log's segments, in order. A missing
// directory has none.
func segments(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		n, err := strconv.ParseInt(name, 10, 64)
		if ok && err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
