package dataset

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/trinity-go/trinity/internal/process"
)

// The decoders of Parquet and Arrow allocate what a file says, so that a damaged file of 5 KB can
// ask for more memory than there is. They run in child processes, where that is an error.
var (
	parquetFiles = columnar("Parquet", decodeParquet)
	arrowFiles   = columnar("Arrow", decodeArrow)
)

// columnFormat is a format of columns, and the child process that decodes it.
type columnFormat struct {
	name    string
	decoder process.Confined
}

func columnar(name string, decode func(*io.SectionReader, *rowWriter) error) columnFormat {
	return columnFormat{name, process.Confine(strings.ToLower(name), func(in *io.SectionReader, out io.Writer) error {
		w := &rowWriter{out: bufio.NewWriterSize(out, 1<<16)}
		return errors.Join(w.decode(in, decode), w.out.Flush())
	})}
}

// rowWriter writes the rows of a child process: a JSON object a line, and lines such as "2/17" that
// tell how much was read.
type rowWriter struct {
	out  *bufio.Writer
	rows int
	part string // of the file that is being decoded; "" for what describes the rows
}

// decode decodes a file. The libraries panic at some damaged files, and tell of an index or a
// length; the error names the part of the file instead.
func (w *rowWriter) decode(in *io.SectionReader, decode func(*io.SectionReader, *rowWriter) error) (err error) {
	defer func() {
		var panicked runtime.Error // that a library has recovered
		switch p := recover(); {
		case p == nil && !errors.As(err, &panicked):
		case w.part == "":
			err = errors.New("its schema or its footer is damaged: write the file again")
		default:
			err = w.failed(fmt.Errorf("%s is damaged: write the file again", w.part))
		}
	}()
	return decode(in, w)
}

func (w *rowWriter) add(row map[string]any) error {
	data, err := json.Marshal(row)
	if err == nil {
		err = checkColumns(row)
	}
	if err == nil && len(data) > maxRow {
		err = errLong
	}
	if err != nil {
		return w.failed(err)
	}
	w.rows++
	_, err = w.out.Write(append(data, '\n'))
	return err
}

func (w *rowWriter) tell(done, total int64) error {
	_, err := fmt.Fprintf(w.out, "%d/%d\n", done, total)
	return err
}

// failed returns an error of the row that would be written next.
func (w *rowWriter) failed(err error) error {
	return fmt.Errorf("%s: %w", place("", "row", w.rows), err)
}

// read spools the rows of a file.
func (c columnFormat) read(ctx context.Context, in *input) (shard, error) {
	return spooled(in, "row", func(s *spool) error {
		var ours error
		err := c.decoder.Run(ctx, in.source(), func(out io.Reader) error {
			ours = scanLines(out, 1, func(_ int64, _ int, line []byte) error { return c.take(s, line) })
			return ours
		})
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, ours):
			return err
		case strings.HasPrefix(err.Error(), place("", "row", s.rows)):
			return fmt.Errorf("%s%w", in.path, err)
		}
		if errors.Is(err, process.ErrMemory) {
			err = fmt.Errorf("%w; damaged files do so", err)
		}
		return fmt.Errorf("%s: unreadable %s file: %w", in.path, c.name, err)
	})
}

// take adds a row, or reports progress.
func (c columnFormat) take(s *spool, line []byte) error {
	if line[0] == '{' {
		return s.add(s.rows, line)
	}
	var done, total int64
	if _, err := fmt.Sscanf(string(line), "%d/%d", &done, &total); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	if s.opts.Progress != nil {
		s.opts.Progress(s.path, done, total)
	}
	return nil
}
