package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrowMagic begins a file in Arrow's file format. Other files are in the stream format, which
// Hugging Face datasets writes.
const arrowMagic = "ARROW1"

// maxBatch bounds one record batch of an Arrow file, in bytes.
const maxBatch = 1 << 30

// decodeArrow decodes an Arrow IPC file, in the file or the stream format, batch by batch.
func decodeArrow(in *io.SectionReader, out *rowWriter) error {
	registerUUID()
	next, err := arrowBatches(in, out)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		out.part = fmt.Sprintf("record batch %d", n)
		batch, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return out.failed(err)
		}
		if err := addBatch(out, batch); err != nil {
			return err
		}
	}
}

// arrowBatches returns the record batches of a file one after another, then io.EOF.
func arrowBatches(in *io.SectionReader, out *rowWriter) (next func() (arrow.RecordBatch, error), err error) {
	limits := []ipc.Option{ipc.WithBodySizeLimit(maxBatch), ipc.WithMetadataSizeLimit(maxRow)}
	magic := make([]byte, len(arrowMagic))
	if _, err := in.ReadAt(magic, 0); err != nil {
		return nil, err
	}
	if string(magic) != arrowMagic {
		r, err := ipc.NewReader(bufio.NewReaderSize(in, 1<<16), limits...)
		if err != nil {
			return nil, err
		}
		return func() (arrow.RecordBatch, error) {
			at, err := in.Seek(0, io.SeekCurrent)
			if err := errors.Join(err, out.tell(at, in.Size())); err != nil {
				return nil, err
			}
			return r.Read()
		}, nil
	}
	f, err := ipc.NewFileReader(in, limits...)
	if err != nil {
		return nil, err
	}
	at := 0
	return func() (arrow.RecordBatch, error) {
		if at == f.NumRecords() {
			return nil, io.EOF
		}
		at++
		if err := out.tell(int64(at), int64(f.NumRecords())); err != nil {
			return nil, err
		}
		return f.RecordBatchAt(at - 1)
	}, nil
}

func addBatch(out *rowWriter, batch arrow.RecordBatch) error {
	defer batch.Release()
	fields := batch.Schema().Fields()
	for i := range int(batch.NumRows()) {
		row := make(map[string]any, len(fields))
		for k, f := range fields {
			out.part = fmt.Sprintf("column %q", f.Name)
			v, err := arrowValue(batch.Column(k), i)
			if err != nil {
				return out.failed(fmt.Errorf("column %s: %w", f.Name, err))
			}
			row[f.Name] = v
		}
		if err := out.add(row); err != nil {
			return err
		}
	}
	return nil
}
