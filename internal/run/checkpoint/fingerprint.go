package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
)

// Fingerprint returns a sum that differs for different contents, without reading all of them. It is
// made of the names and sizes of the files and the first and last 64 KiB of each; of a directory, of
// the wanted files below it. The fingerprint of a database is "".
func Fingerprint(path string, wanted func(name string) bool) (string, error) {
	if dburl.IsURL(path) {
		return "", nil
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != root && strings.HasPrefix(e.Name(), ".") && e.IsDir():
			return fs.SkipDir
		case e.IsDir() || p != root && !wanted(e.Name()):
			return nil
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return addFile(h, filepath.ToSlash(name), p)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addFile(to io.Writer, name, path string) error {
	const part = 64 << 10
	info, err := os.Stat(path) // before opening it, which for a pipe would wait for a writer
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(to, "%s %d\n", name, info.Size())
	for _, from := range []int64{0, max(0, info.Size()-part)} {
		if _, err := io.Copy(to, io.NewSectionReader(f, from, part)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// IsModelFile reports whether a model is made of files of this name.
func IsModelFile(name string) bool {
	for _, end := range []string{".json", ".safetensors", ".gguf", ".model", ".jinja"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
