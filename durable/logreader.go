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
)

// LogReader reads the records of a log in order, also while another process appends to it.
type LogReader struct {
	dir    string
	skip   int64    // records before this one are passed over
	file   *os.File // the segment that is read; nil before the first
	first  int64    // number of its first record
	offset int64    // in it, of the next record
	next   int64    // number of the next record
	buffer []byte
}

// ReadLog reads the log of a directory from record number from on. The directory need not be there yet.
func ReadLog(dir string, from int64) *LogReader { return &LogReader{dir: dir, skip: from} }

// Next returns the next record, which is valid until the next call, or io.EOF when there is none that is whole: there may be one later.
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

// Number is that of the record which Next returns next.
func (r *LogReader) Number() int64 { return max(r.next, r.skip) }

// open takes the segment that holds the record to begin with.
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
	f, err := os.Open(segmentPath(r.dir, first))
	if err != nil {
		return err
	}
	r.file, r.first, r.next, r.offset = f, first, first, 0
	return nil
}

// advance goes on to the segment that follows, if there is one, which means that this one is whole.
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

// wrote looks again for a record that was not there, of a segment that is followed by another: it was written meanwhile, or something was lost.
func (r *LogReader) wrote(following int64) error {
	_, err := r.record()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: record %d is missing, and the log goes on with record %d: a file was cut or removed", r.file.Name(), r.next, following)
	}
	return err
}

// whole says whether the segment ends with its last record.
func (r *LogReader) whole() error {
	info, err := r.file.Stat()
	if err == nil && info.Size() != r.offset {
		err = r.damaged()
	}
	return err
}

// record reads the record at the offset. io.EOF means that it is not there, or not to its end.
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
			return nil, io.EOF // its length is on the disk, its bytes are not, yet
		}
		return nil, r.damaged()
	}
	return r.buffer, nil
}

// frame reads what stands before the bytes of the record at the offset: their number and their checksum.
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

// begins passes over the segment's magic.
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
		return fmt.Errorf("%s is no segment of a log: its first bytes are wrong", r.file.Name())
	}
	r.offset = int64(len(segmentMagic))
	return nil
}

// unwritten is io.EOF where the segment was made longer and nothing was written from a place on, but for the beginning of something before it, before the
// process was killed.
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

func (r *LogReader) damaged() error {
	return fmt.Errorf("%s: record %d, at byte %d, is damaged: its checksum is wrong", r.file.Name(), r.next, r.offset)
}

// Close closes what is open.
func (r *LogReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// segments are the numbers of the first records of a log's segments, in order; none where there is no directory.
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
