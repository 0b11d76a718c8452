package durable

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// LogIndex reads single records of a log in any order, also while the log grows. It remembers the
// offsets of the records in the segments that it has read.
type LogIndex struct {
	dir  string
	open map[int64]*indexed // by the number of their first record
}

// indexed is a segment with the known offsets of its records.
type indexed struct {
	LogReader
	offsets []int64 // of its first records in order, and of the end of the last of these
}

// IndexLog returns an index of the log in a directory.
func IndexLog(dir string) *LogIndex { return &LogIndex{dir: dir, open: map[int64]*indexed{}} }

// Read returns a record. It is valid until the next call.
func (x *LogIndex) Read(number int64) ([]byte, error) {
	s, err := x.segment(number)
	if err != nil {
		return nil, err
	}
	record, err := s.at(number)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s ends before record %d: was it removed?", x.dir, number)
	}
	return record, err
}

// segment returns the segment that holds a record, or an error if there is none.
func (x *LogIndex) segment(number int64) (*indexed, error) {
	all, err := segments(x.dir)
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearch(all, number)
	if !found {
		i--
	}
	if i < 0 {
		return nil, fmt.Errorf("%s: record %d has been removed", x.dir, number)
	}
	if s, ok := x.open[all[i]]; ok {
		return s, nil
	}
	s := &indexed{LogReader: LogReader{dir: x.dir}, offsets: []int64{int64(len(segmentMagic))}}
	if err := s.enter(all[i]); err != nil {
		return nil, err
	}
	x.open[all[i]] = s
	return s, nil
}

// at reads a record of the segment. It first reads the frames before it whose offsets are unknown.
func (s *indexed) at(number int64) ([]byte, error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	if len(s.offsets) == 1 {
		if err := s.begins(info.Size()); err != nil {
			return nil, err
		}
	}
	for i := int64(len(s.offsets)) - 1; i < number-s.first; i++ {
		s.offset, s.next = s.offsets[i], s.first+i
		length, _, err := s.frame(info.Size())
		if err != nil {
			return nil, err
		}
		s.offsets = append(s.offsets, s.offset+frameBytes+length)
	}
	s.offset, s.next = s.offsets[number-s.first], number
	return s.record()
}

// Close closes the open segments. Read opens them again.
func (x *LogIndex) Close() error {
	var errs []error
	for first, s := range x.open {
		errs = append(errs, s.Close())
		delete(x.open, first)
	}
	return errors.Join(errs...)
}
