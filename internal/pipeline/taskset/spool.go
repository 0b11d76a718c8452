package taskset

import (
	"bufio"
	"errors"
	"os"
)

// spool keeps rows on the disk so that they can be read in another order.
type spool struct {
	file *os.File
	w    *bufio.Writer
	ends []int64 // offset of the end of each row
}

func newSpool(path string) (*spool, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &spool{file: f, w: bufio.NewWriterSize(f, 1<<20)}, nil
}

// add writes the next row.
func (s *spool) add(row []byte) error {
	s.ends = append(s.ends, s.start(len(s.ends))+int64(len(row)))
	_, err := s.w.Write(row)
	return err
}

// start returns the offset of a row.
func (s *spool) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

// get returns row i.
func (s *spool) get(i int) ([]byte, error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	row := make([]byte, s.ends[i]-s.start(i))
	_, err := s.file.ReadAt(row, s.start(i))
	return row, err
}

// close removes the file.
func (s *spool) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
