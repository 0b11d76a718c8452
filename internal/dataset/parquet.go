package dataset

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// decodeParquet decodes a Parquet file once. Seeking rows in the file would decode a column's pages
// from the start for each row of a shuffled epoch, because files of pyarrow have no page index.
func decodeParquet(in *io.SectionReader, out *rowWriter) error {
	file, err := parquet.OpenFile(in, in.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return err
	}
	asm := newAssembler(file.Schema(), file.Metadata().Schema)
	for i, group := range file.RowGroups() {
		out.part = fmt.Sprintf("row group %d", i+1)
		if err := errors.Join(readGroup(out, asm, group), out.tell(int64(out.rows), file.NumRows())); err != nil {
			return err
		}
	}
	if int64(out.rows) != file.NumRows() {
		return fmt.Errorf("it says %d rows, %d were read: write it anew with the three-level list layout", file.NumRows(), out.rows)
	}
	return nil
}

func readGroup(out *rowWriter, asm *assembler, group parquet.RowGroup) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			v, err := asm.row(row)
			if err != nil {
				return out.failed(err)
			}
			if err := out.add(v); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && n == 0 {
			err = io.ErrNoProgress
		}
		if err != nil {
			return out.failed(err)
		}
	}
}
