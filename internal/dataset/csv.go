package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readCSV reads a table of comma- or tab-separated values whose first record names the columns
// (RFC 4180). Every value is text, because a table has no types, and an answer 007 or 1e3 must
// stay as written.
func readCSV(in *input) (shard, error) {
	return spooled(in, "line", func(s *spool) error {
		r, err := in.text()
		if err != nil {
			return err
		}
		defer r.Close()
		return readTable(s, r)
	})
}

func readTable(s *spool, in io.Reader) error {
	path := s.path
	br := bufio.NewReader(in)
	skipByteOrderMark(br)
	r := csv.NewReader(br)
	if format, _ := formatOf(path); format == ".tsv" {
		r.Comma = '\t'
	}
	if other := otherSeparator(br, r.Comma); other != 0 {
		return fmt.Errorf("%s:1: the columns are separated by %q: save the file with commas as .csv, or with tabs as .tsv", path, other)
	}
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	known := make(map[string]bool, len(header))
	for i, name := range header {
		if err := checkText(name); err != nil {
			return fmt.Errorf("%s:1: the name of column %d: %w", path, i+1, err)
		}
		if known[name] {
			return fmt.Errorf("%s:1: two columns are named %q", path, name)
		}
		known[name] = true
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
			if err := checkText(v); err != nil {
				return fmt.Errorf("%s:%d: column %s: %w", path, number, header[i], err)
			}
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

// otherSeparator returns the separator of the names in the first line if it has none of the wanted ones, else 0.
// Spreadsheets write semicolons where the comma is the decimal sign.
func otherSeparator(br *bufio.Reader, wanted rune) rune {
	head, _ := br.Peek(br.Size()) // less at the end of the file
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if bytes.ContainsRune(line, wanted) {
		return 0
	}
	for _, other := range ";\t," {
		if bytes.ContainsRune(line, other) {
			return other
		}
	}
	return 0
}
