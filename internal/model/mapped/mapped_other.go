//go:build !unix

package mapped

import (
	"io"
	"os"
)

// load reads the whole file, because on Windows a rename cannot replace a mapped file and
// checkpoints need that.
func load(f *os.File, size int64) ([]byte, func() error, error) {
	bytes := make([]byte, size)
	if _, err := io.ReadFull(f, bytes); err != nil {
		return nil, nil, err
	}
	return bytes, nil, nil
}
