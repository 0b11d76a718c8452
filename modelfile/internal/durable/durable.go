// Package durable replaces files so that neither a killed process nor a power failure leaves half of one.
package durable

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace makes path hold what write writes: under the temporary name path + ".partial" at first, then synced and renamed. On an
// error path stays as it was.
func Replace(path string, write func(w io.Writer) error) error {
	partial := path + ".partial"
	f, err := os.Create(partial)
	if err != nil {
		return err
	}
	err = fill(f, write)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		os.Remove(partial)
		return err
	}
	return syncDir(filepath.Dir(path))
}

func fill(f *os.File, write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}
