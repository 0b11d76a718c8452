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
	return fingerprint(path, wanted, 0)
}

// DeepFingerprint also reads parts between the ends of each file: an adapter that is merged into a
// model changes neither end. Runs have recorded the other one.
func DeepFingerprint(path string, wanted func(name string) bool) (string, error) {
	return fingerprint(path, wanted, 32)
}

func fingerprint(path string, wanted func(name string) bool, samples int64) (string, error) {
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
		return addFile(h, filepath.ToSlash(name), p, samples)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addFile(to io.Writer, name, path string, samples int64) error {
	const part, sample = 64 << 10, 4 << 10
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
	add := func(from, size int64) {
		_, one := io.Copy(to, io.NewSectionReader(f, from, size))
		err = errors.Join(err, one)
	}
	add(0, part)
	add(max(0, info.Size()-part), part)
	for i := range samples {
		add((i+1)*(info.Size()/(samples+1)), sample)
	}
	return err
}

// IsWeights reports whether a file of this name has weights.
func IsWeights(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".gguf")
}

// IsModelFile reports whether a model is made of files of this name.
func IsModelFile(name string) bool {
	for _, end := range []string{".json", ".model", ".jinja"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return IsWeights(name)
}
