package dataset

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// openCompressed reads gzip or Zstandard over JSON Lines or JSON.
func openCompressed(path string, opts Options) (shard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r, err := decompress(counted(f, path, info.Size(), opts), path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	if !strings.HasPrefix(extension(path), ".json.") {
		return readLines(path, r, opts)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return readJSON(path, text, opts)
}

func decompress(f io.Reader, path string) (io.ReadCloser, error) {
	if strings.HasSuffix(path, ".gz") {
		return gzip.NewReader(f)
	}
	const window = 128 << 20 // what `zstd --long` asks for; more is refused
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}
