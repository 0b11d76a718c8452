package dataset

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// openCSV reads a table of comma- or tab-separated values whose first record names the columns (RFC 4180). Every value is text: a table says
// nothing of types, and an answer 007 or 1e3 should stay as written.
func openCSV(path string, opts Options) (shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readCSV(path, counted(f, path, info.Size(), opts), opts)
}

func readCSV(path string, in io.Reader, opts Options) (shard, error) {
	return spooled(path, "line", opts, func(s *spool) error { return readTable(s, in) })
}

func readTable(s *spool, in io.Reader) error {
	path := s.path
	br := bufio.NewReader(in)
	if mark, err := br.Peek(len(byteOrderMark)); err == nil && string(mark) == string(byteOrderMark) {
		_, _ = br.Discard(len(byteOrderMark)) // just peeked
	}
	r := csv.NewReader(br)
	if extension(path) == ".tsv" {
		r.Comma = '\t'
	}
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, name := range header {
		for _, other := range header[:i] {
			if name == other {
				return fmt.Errorf("%s:1: two columns are named %q", path, name)
			}
		}
	}
	r.ReuseRecord = true
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		number, _ := r.FieldPos(0)
		row := make(map[string]string, len(header))
		for i, v := range record {
			row[header[i]] = v
		}
		data, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if err := s.add(number, data); err != nil {
			return err
		}
	}
}
