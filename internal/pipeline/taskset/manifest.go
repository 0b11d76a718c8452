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

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/registry"
)

// edition changes when a new version of the pipeline makes a different output from the same
// settings and inputs. A program with another edition makes the output again.
const edition = 1

// manifest records the settings and inputs that an output was made of.
type manifest struct {
	Settings string  `json:"settings"` // SHA-256
	Inputs   []stamp `json:"inputs"`
	Output   string  `json:"output"`           // SHA-256
	Before   string  `json:"before,omitempty"` // SHA-256 of the output that this one replaces; a kill may have left it in place
	Report   *Report `json:"report"`
}

// stamp identifies the state of a file: if the stamp differs, the file has changed.
type stamp struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Time  int64  `json:"mtime_ns"`
}

// stamps returns the stamps of files, and of all files in directories except hidden ones.
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

// settings returns a digest of everything that determines the output, except the inputs. Secrets do
// not.
func (r *Recipe) settings() (string, error) {
	own := *r
	own.Inputs, own.Output, own.Operators = nil, "", nil
	for _, o := range r.Operators {
		args, _ := withoutSecrets(o.Args).(map[string]any)
		own.Operators = append(own.Operators, Operator{o.Name, args})
	}
	data, err := json.Marshal(struct {
		Edition int
		Recipe  Recipe
	}{edition, own})
	return digest(data), err
}

// withoutSecrets returns a copy of an argument without the secrets in it.
func withoutSecrets(v any) any {
	args, ok := v.(map[string]any)
	if !ok || args == nil {
		return v
	}
	public := map[string]any{}
	for name, arg := range args {
		if !registry.IsSecret(name) {
			public[name] = withoutSecrets(arg)
		}
	}
	return public
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// digestFile returns the SHA-256 of a file; "" if the file does not exist.
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

// manifest reads the manifest of the output; it is empty if there is none.
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

// Made returns the report of an output that is up to date, and nil if the output must be made. It
// returns an error if the file at the path was not written by a task pipeline.
func (r *Recipe) Made() (*Report, error) {
	there, err := digestFile(r.File()) // read before the manifest: another process may be about to replace both
	if err != nil || there == "" {
		return nil, err
	}
	m, err := r.manifest()
	if err != nil {
		return nil, err
	}
	if there != m.Output && there != m.Before {
		return nil, fmt.Errorf("%s exists and is not what a task pipeline wrote: set another output.path, or remove the file", r.File())
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

// write writes the output. It writes the manifest just before, so that no output is without one.
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
