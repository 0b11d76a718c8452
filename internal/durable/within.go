package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadWithin reads a file of a directory, unless it is a link out of it or is larger than limit.
func ReadWithin(dir, name string, limit int64) ([]byte, error) {
	f, size, err := OpenWithin(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", filepath.Join(dir, name), size, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// ReadRegular reads a file that may be a link, unless it is a pipe or a device, or is larger than limit.
func ReadRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // to open a pipe waits for its writer, and a device may have no end
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// OpenWithin opens a regular file of a directory, and returns its size. The error of one that is not
// there is [fs.ErrNotExist].
func OpenWithin(dir, name string) (f *os.File, size int64, err error) {
	defer func() {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = fmt.Errorf("%s: %w", filepath.Join(dir, name), at.Err)
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() { // to open a pipe waits for its writer
		return nil, 0, fmt.Errorf("%s is no regular file", filepath.Join(dir, name))
	}
	f, err = root.Open(name)
	return f, info.Size(), err
}
