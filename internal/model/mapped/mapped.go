// Package mapped maps files into read-only memory, so opening a model of many gigabytes costs
// nothing until something reads its bytes.
package mapped

import (
	"fmt"
	"os"
)

// File is an open file. Bytes is read-only and invalid after Close.
type File struct {
	Path  string
	Bytes []byte

	release func() error
}

// Open maps the file at path.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe waits for its writer
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return &File{Path: path}, nil
	}
	bytes, release, err := load(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{Path: path, Bytes: bytes, release: release}, nil
}

// Close releases the memory. Closing twice is harmless.
func (f *File) Close() error {
	release := f.release
	f.Bytes, f.release = nil, nil
	if release == nil {
		return nil
	}
	return release()
}
