package dataset

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// input is a file whose rows are read.
type input struct {
	path string
	at   io.ReaderAt
	size int64 // bytes
	opts Options
}

// openShard reads or indexes a file, in the format that its extension names.
func openShard(ctx context.Context, path string, opts Options) (shard, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return (&input{path, f, info.Size(), opts}).read(ctx)
}

// read reads a file by its extension.
func (in *input) read(ctx context.Context) (shard, error) {
	format, compression := formatOf(in.path)
	switch format {
	case ".jsonl", ".ndjson":
		if compression == "" {
			return indexLines(in)
		}
		return readLines(in)
	case ".json":
		return readJSON(in)
	case ".csv", ".tsv":
		return readCSV(in)
	case ".parquet":
		return parquetFiles.read(ctx, in)
	case ".arrow":
		return arrowFiles.read(ctx, in)
	}
	return nil, fmt.Errorf("%s: not a format of datasets: want one of %s", in.path, strings.Join(extensions, " "))
}

// source returns the file itself, for a child process, or all of its bytes.
func (in *input) source() io.Reader {
	if f, ok := in.at.(*os.File); ok {
		return f
	}
	return io.NewSectionReader(in.at, 0, in.size)
}

// text returns the whole file, decompressed.
func (in *input) text() (io.ReadCloser, error) {
	file := counted(io.NewSectionReader(in.at, 0, in.size), in.path, in.size, in.opts)
	r, err := decompress(file, in.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.path, cutOff(err))
	}
	text, err := inUTF8(uncut{r})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.path, err)
	}
	return text, nil
}

// uncut replaces the error of truncated compressed data by one that says so.
type uncut struct{ io.ReadCloser }

func (u uncut) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	return n, cutOff(err)
}

func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends in the middle of its compressed data, it is cut off: copy it again")
	}
	return err
}

func decompress(file io.Reader, path string) (io.ReadCloser, error) {
	switch _, compression := formatOf(path); compression {
	case ".gz":
		return gzip.NewReader(file)
	case ".zst":
		const window = 128 << 20 // what `zstd --long` asks for; more is refused
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(file), nil
}
