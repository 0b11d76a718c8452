package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// readParquet decodes a Parquet file once into a spool. Seeking rows in the file would decode a
// column's pages from the start for each row of a shuffled epoch, because files of pyarrow have no
// page index.
func readParquet(in *input) (shard, error) {
	path, opts := in.path, in.opts
	file, err := parquet.OpenFile(in.at, in.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	asm := newAssembler(file.Schema())
	return spooled(in, "row", func(s *spool) error {
		for _, group := range file.RowGroups() {
			if err := readGroup(s, asm, group); err != nil {
				return err
			}
			if opts.Progress != nil {
				opts.Progress(path, int64(s.rows), file.NumRows())
			}
		}
		if int64(s.rows) != file.NumRows() {
			return fmt.Errorf("%s: the file says %d rows, %d were read: write it anew with the three-level list layout",
				path, file.NumRows(), s.rows)
		}
		return nil
	})
}

func readGroup(s *spool, asm *assembler, group parquet.RowGroup) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			number := s.rows
			v, err := asm.row(row)
			if err != nil {
				return fmt.Errorf("%s: %w", s.at(number), err)
			}
			data, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("%s: %w", s.at(number), err)
			}
			if err := s.add(number, data); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.at(s.rows), err)
		}
		if n == 0 {
			return fmt.Errorf("%s: %w", s.at(s.rows), io.ErrNoProgress)
		}
	}
}
