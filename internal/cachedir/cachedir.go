// Package cachedir keeps files that can be computed again in a directory of the user's cache.
package cachedir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Dir is a directory of the cache. Several processes may use it: every file appears whole. A nil Dir
// keeps nothing.
type Dir struct {
	path string
	max  int64 // bytes of all files

	mu      sync.Mutex
	written int64 // bytes since the files were measured; −1 before
}

// New returns the cache in a directory, which need not exist yet. Its files have at most max bytes
// together: the one that was used the longest time ago goes first.
func New(path string, max int64) *Dir { return &Dir{path: path, max: max, written: -1} }

// Name returns the name of the file that is about a path. kind separates files about the same path.
func Name(path, kind string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + "." + kind
}

// IsBelow reports whether the cache is in a directory.
func (d *Dir) IsBelow(dir string) bool {
	if d == nil {
		return false
	}
	rel, err := filepath.Rel(dir, d.path)
	return err == nil && filepath.IsLocal(rel)
}

// Open opens a file and returns its size. The error of a file that is not there, or that no Write wrote
// because it is too large, is [fs.ErrNotExist].
func (d *Dir) Open(name string) (file *os.File, size int64, err error) {
	if d == nil {
		return nil, 0, fs.ErrNotExist
	}
	path := filepath.Join(d.path, name)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > d.max {
		return nil, 0, cmp.Or(err, fs.ErrNotExist)
	}
	if file, err = os.Open(path); err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // of another user's directory it may not
	return file, info.Size(), nil
}

// Write writes a file, in place of an older one. A reader sees the old or the new one, whole.
func (d *Dir) Write(name string, data []byte) error {
	if d == nil || int64(len(data)) > d.max {
		return nil
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(d.path, tempPrefix)
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), filepath.Join(d.path, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return d.trim(int64(len(data)))
}

const (
	tempPrefix = ".part-"
	tempAge    = time.Hour // after which no process writes a file any more
)

// trim removes files until the others fit. It looks when enough has come that they might not.
func (d *Dir) trim(more int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written += more; d.written >= more && d.written < d.max/16 {
		return nil
	}
	d.written = 0
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	sum := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if time.Since(info.ModTime()) > tempAge {
				err = d.remove(info)
			}
			if err != nil {
				return err
			}
			continue
		}
		files, sum = append(files, info), sum+info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if sum <= d.max-d.max/16 {
			break
		}
		if err := d.remove(info); err != nil {
			return err
		}
		sum -= info.Size()
	}
	return nil
}

func (d *Dir) remove(info fs.FileInfo) error {
	err := os.Remove(filepath.Join(d.path, info.Name()))
	if errors.Is(err, fs.ErrNotExist) { // another process was faster
		return nil
	}
	return err
}
