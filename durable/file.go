package durable

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace makes path hold what write writes: under a temporary name beside it at first, then flushed to the disk and renamed. On an error
// path stays as it was.
func Replace(path string, write func(w io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path))
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	err = fill(f, write)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncPath(filepath.Dir(path))
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

// WriteFile makes path hold data: readers see the old or the new content.
func WriteFile(path string, data []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
}
