package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Size returns the bytes of the files at a path, which is a file or a directory. Files may go while it counts; it is an error
// if the path itself is not there.
func Size(path string) (sum int64, err error) {
	err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && !e.IsDir() {
			if info, err = e.Info(); err == nil {
				sum += info.Size()
			}
		}
		if at != path && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}
