package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// openParquet reads a Parquet file into memory, rows as JSON. The file's own row seeking would decode a column's pages from the start for each
// row of a shuffled epoch, as files of pyarrow have no page index.
func openParquet(path string) (shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readParquet(path, f, info.Size())
}

func readParquet(path string, in io.ReaderAt, size int64) (s shard, err error) {
	defer func() { // the decoder panics on some damaged files
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("%s: damaged Parquet file: %v", path, r)
		}
	}()
	file, err := parquet.OpenFile(in, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &memory{path: path, unit: "row"}
	asm := newAssembler(file.Schema())
	for _, group := range file.RowGroups() {
		if err := readGroup(m, asm, group); err != nil {
			return nil, err
		}
	}
	if int64(len(m.index)) != file.NumRows() {
		return nil, fmt.Errorf("%s: the file says %d rows, %d were read: write it anew with the three-level list layout", path, file.NumRows(), len(m.index))
	}
	return m, nil
}

func readGroup(m *memory, asm *assembler, group parquet.RowGroup) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			number := len(m.index)
			v, err := asm.row(row)
			if err != nil {
				return fmt.Errorf("%s: %w", m.at(number), err)
			}
			data, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("%s: %w", m.at(number), err)
			}
			if err := m.add(number, data); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.at(len(m.index)), err)
		}
		if n == 0 {
			return fmt.Errorf("%s: %w", m.at(len(m.index)), io.ErrNoProgress)
		}
	}
}
