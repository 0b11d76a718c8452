// Package files names the files of a directory by size and digest, for programs that fetch them.
package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file below a directory.
type File struct {
	Name   string `json:"name"` // with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// List returns the files below a directory by name, and the digest of all: the SHA-256 of the lines
// "<sha256>  <name>\n", as sha256sum prints them.
func List(dir string) (list []File, digest string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		size, sum, err := sumFile(path)
		if err != nil {
			return err
		}
		list = append(list, File{filepath.ToSlash(name), size, sum})
		return nil
	})
	all := sha256.New()
	for _, f := range list {
		fmt.Fprintf(all, "%s  %s\n", f.SHA256, f.Name)
	}
	return list, hex.EncodeToString(all.Sum(nil)), err
}

func sumFile(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
