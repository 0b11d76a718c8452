package taskset

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/durable"
)

// edition of what the pipeline makes of the same settings and inputs; a program of another one makes it anew.
const edition = 1

// manifest says what an output was made of.
type manifest struct {
	Settings string  `json:"settings"` // SHA-256
	Inputs   []stamp `json:"inputs"`
	Output   string  `json:"output"`           // SHA-256
	Before   string  `json:"before,omitempty"` // of the output that this one replaces: a kill may have left it in place
	Report   *Report `json:"report"`
}

// stamp tells whether a file has changed.
type stamp struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Time  int64  `json:"mtime_ns"`
}

// stamps of files, and of all files in directories, but hidden ones.
func stamps(paths []string) ([]stamp, error) {
	var all []stamp
	for _, root := range paths {
		if _, err := os.Stat(root); err != nil {
			return nil, fmt.Errorf("inputs: %w", err)
		}
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path != root && strings.HasPrefix(e.Name(), "."):
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			info, err := os.Stat(path)
			if err != nil || info.IsDir() {
				return err
			}
			all = append(all, stamp{path, info.Size(), info.ModTime().UnixNano()})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// settings is a digest of all that decides over the output, but the inputs.
func (r *Recipe) settings() (string, error) {
	own := *r
	own.Inputs, own.Output = nil, ""
	data, err := json.Marshal(struct {
		Edition int
		Recipe  Recipe
	}{edition, own})
	return digest(data), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// digestFile is "" of a file that is not there.
func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func (r *Recipe) manifestPath() string { return filepath.Join(r.work(), "manifest.json") }

// manifest of the output, empty if there is none.
func (r *Recipe) manifest() (m manifest, err error) {
	data, err := os.ReadFile(r.manifestPath())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", r.manifestPath(), err)
	}
	return m, nil
}

// Made is the report of an output that is there and need not be made again; nil if it has to be. It refuses to replace what no task pipeline has written.
func (r *Recipe) Made() (*Report, error) {
	there, err := digestFile(r.File()) // before the manifest, which another process may be about to replace together with it
	if err != nil || there == "" {
		return nil, err
	}
	m, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if there != m.Output && there != m.Before {
		return nil, fmt.Errorf("%s is there and is not what a task pipeline wrote: name another output.path, or remove it", r.File())
	}
	settings, err := r.settings()
	if err != nil {
		return nil, err
	}
	inputs, err := stamps(r.Inputs)
	if err != nil {
		return nil, err
	}
	if there != m.Output || settings != m.Settings || !slices.Equal(inputs, m.Inputs) {
		return nil, nil
	}
	m.Report.Output, m.Report.Reused = r.File(), true
	return m.Report, nil
}

// write puts the rows into the output. The manifest comes just before, so that an output is never without one.
func (r *Recipe) write(inputs []stamp, report *Report, row func(i int) ([]byte, error)) error {
	m := manifest{Inputs: inputs, Report: report}
	var err error
	if m.Before, err = digestFile(r.File()); err != nil {
		return err
	}
	if m.Settings, err = r.settings(); err != nil {
		return err
	}
	return durable.Replace(r.File(), func(w io.Writer) error {
		h := sha256.New()
		both := bufio.NewWriterSize(io.MultiWriter(w, h), 1<<20)
		for i := range report.Rows {
			line, err := row(i)
			if err != nil {
				return err
			}
			if _, err := both.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err := both.Flush(); err != nil {
			return err
		}
		m.Output = hex.EncodeToString(h.Sum(nil))
		data, err := json.MarshalIndent(m, "", " ")
		if err != nil {
			return err
		}
		return durable.WriteFile(r.manifestPath(), data)
	})
}
