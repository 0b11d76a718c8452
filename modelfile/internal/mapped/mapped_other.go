//go:build !unix

package mapped

import (
	"io"
	"os"
)

// load reads the whole file: a mapped file cannot be renamed over on Windows, which checkpoints need.
func load(f *os.File, size int64) ([]byte, func() error, error) {
	bytes := make([]byte, size)
	if _, err := io.ReadFull(f, bytes); err != nil {
		return nil, nil, err
	}
	return bytes, nil, nil
}
