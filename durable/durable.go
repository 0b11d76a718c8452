// Package durable writes files and directories so that a kill at any moment leaves the old or the new content, whole.
package durable

import (
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix starts the names of directories that are being written; what a killed process left under such a name may be removed.
const TempPrefix = ".writing_"

// WriteDir has write fill a directory under a temporary name, flushes it to the disk and renames it to dir, in place of what was there.
func WriteDir(dir string, write func(temp string) error) error {
	parent := filepath.Dir(dir)
	temp := filepath.Join(parent, TempPrefix+filepath.Base(dir))
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	if err := write(temp); err != nil {
		return err
	}
	if err := syncTree(temp); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncPath(parent)
}

// RemoveLeftovers removes what killed processes left half written in parent.
func RemoveLeftovers(parent string) error {
	leftovers, err := filepath.Glob(filepath.Join(parent, TempPrefix+"*"))
	if err != nil {
		return err
	}
	for _, l := range leftovers {
		if err := os.RemoveAll(l); err != nil {
			return err
		}
	}
	return nil
}

// syncTree flushes every file and directory below dir.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}
