package durable

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SumsFile lists the content of a sealed directory for sha256sum -c: lines of a SHA-256, two spaces
// and a path.
const SumsFile = "SHA256SUMS"

// Seal writes the sums of all files below dir, except for files in directories that are sealed
// themselves, for documents (.md), which people and programs add and edit later, and for locks and what
// is being written, which a killed process leaves.
func Seal(dir string) error {
	sums, err := sumsOf(dir)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return WriteFile(filepath.Join(dir, SumsFile), text.Bytes())
}

// Verify compares a sealed directory with its sums. The error names the first file that differs.
func Verify(dir string) error {
	want, err := readSums(dir)
	if err != nil {
		return err
	}
	got, err := sumsOf(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch path := filepath.Join(dir, name); got[name] {
		case want[name]:
		case "":
			return fmt.Errorf("%s is missing", path)
		default:
			return fmt.Errorf("%s is damaged: its SHA-256 is not that of %s", path, SumsFile)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			return fmt.Errorf("%s is not in %s, which is damaged or older", filepath.Join(dir, name), SumsFile)
		}
	}
	return nil
}

// Missing returns the first sealed file that is missing in a directory, SumsFile if the directory
// is not sealed, and "" if no file is missing.
func Missing(dir string) string {
	sums, err := readSums(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return SumsFile
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// readSums returns the sums by path. A damaged line is an error.
func readSums(dir string) (map[string]string, error) {
	path := filepath.Join(dir, SumsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(sum) != 2*sha256.Size || !filepath.IsLocal(name) || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("%s is damaged: %.80q is not a checksum and a path", path, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

// sumsOf computes the sums of a directory.
func sumsOf(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isPassing := path != dir && hasPrefix(d.Name(), TempPrefix, replacedPrefix, LockPrefix)
		if d.IsDir() {
			if isPassing {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, SumsFile)); err == nil && path != dir {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || isPassing || name == SumsFile || filepath.Ext(name) == ".md" {
			return err
		}
		sums[filepath.ToSlash(name)], err = sumOf(path)
		return err
	})
	return sums, err
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
