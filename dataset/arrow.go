package dataset

import (
	"bufio"
	"encoding/json"
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

// readArrow decodes an Arrow IPC file, in the file or the stream format, batch by batch.
func readArrow(in *input) (shard, error) {
	path := in.path
	next, err := arrowBatches(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spooled(in, "row", func(s *spool) error {
		for {
			batch, err := next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.at(s.rows), err)
			}
			if err := addBatch(s, batch); err != nil {
				return err
			}
		}
	})
}

// arrowBatches returns the record batches of a file one after another, then io.EOF.
func arrowBatches(in *input) (next func() (arrow.RecordBatch, error), err error) {
	limits := []ipc.Option{ipc.WithBodySizeLimit(maxBatch), ipc.WithMetadataSizeLimit(maxRow)}
	whole, opts := io.NewSectionReader(in.at, 0, in.size), in.opts
	magic := make([]byte, len(arrowMagic))
	if n, err := whole.ReadAt(magic, 0); n < len(magic) {
		return nil, fmt.Errorf("no Arrow file: %w", err)
	}
	if string(magic) != arrowMagic {
		r, err := ipc.NewReader(bufio.NewReaderSize(counted(whole, in.path, in.size, opts), 1<<16), limits...)
		if err != nil {
			return nil, err
		}
		return r.Read, nil
	}
	f, err := ipc.NewFileReader(whole, limits...)
	if err != nil {
		return nil, err
	}
	at := 0
	return func() (arrow.RecordBatch, error) {
		if at == f.NumRecords() {
			return nil, io.EOF
		}
		at++
		if opts.Progress != nil {
			opts.Progress(in.path, int64(at), int64(f.NumRecords()))
		}
		return f.RecordBatchAt(at - 1)
	}, nil
}

func addBatch(s *spool, batch arrow.RecordBatch) error {
	defer batch.Release()
	fields := batch.Schema().Fields()
	for i := range int(batch.NumRows()) {
		row := make(map[string]any, len(fields))
		for k, f := range fields {
			v, err := arrowValue(batch.Column(k), i)
			if err != nil {
				return fmt.Errorf("%s, column %s: %w", s.at(s.rows), f.Name, err)
			}
			row[f.Name] = v
		}
		data, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("%s: %w", s.at(s.rows), err)
		}
		if err := s.add(s.rows, data); err != nil {
			return err
		}
	}
	return nil
}
