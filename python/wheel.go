package python

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// project are the parts of pyproject.toml that a wheel repeats.
type project struct {
	Project struct {
		Name        string
		Description string
		Python      string                       `toml:"requires-python"`
		Requires    []string                     `toml:"dependencies"`
		EntryPoints map[string]map[string]string `toml:"entry-points"`
	}
	Tool struct{ Setuptools struct{ Packages []string } }
}

// Wheel returns the package as a wheel for pip, and the wheel's file name. The wheel's version is
// the protocol's and, as its local part, that of the program. Equal programs give equal bytes.
func Wheel(program string) (name string, data []byte, err error) {
	base, w, err := build(program)
	if err != nil {
		return "", nil, err
	}
	data, err = w.zip()
	return base + "-py3-none-any.whl", data, err
}

// Files returns what the wheel would install, by the path from the directory to import it from. With
// it a Python finds the package's plug-ins too.
func Files() (map[string][]byte, error) {
	_, w, err := build("")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for i, name := range w.names {
		files[name] = []byte(w.texts[i])
	}
	return files, nil
}

// build makes the wheel. base is its name with its version.
func build(program string) (base string, w *wheel, err error) {
	text, err := Worker.ReadFile("trinity_worker/pyproject.toml")
	if err != nil {
		return "", nil, err
	}
	var about project
	if err := toml.Unmarshal(text, &about); err != nil {
		return "", nil, fmt.Errorf("pyproject.toml: %w", err)
	}
	version := fmt.Sprint(Protocol)
	if local := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(program), "."), "."); local != "" {
		version += "+" + local
	}
	base, w = strings.ReplaceAll(about.Project.Name, "-", "_")+"-"+version, &wheel{}
	for _, pkg := range about.Tool.Setuptools.Packages {
		if err := w.addPackage(pkg); err != nil {
			return "", nil, err
		}
	}
	info := base + ".dist-info/"
	w.add(info+"METADATA", about.metadata(version))
	w.add(info+"WHEEL", "Wheel-Version: 1.0\nGenerator: trinity\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	if points := about.entryPoints(); points != "" {
		w.add(info+"entry_points.txt", points)
	}
	w.add(info+"RECORD", w.record.String()+info+"RECORD,,\n")
	return base, w, nil
}

func (p *project) metadata(version string) string {
	about := &p.Project
	text := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\n",
		about.Name, version, about.Description, about.Python)
	for _, requirement := range about.Requires {
		text += "Requires-Dist: " + requirement + "\n"
	}
	return text
}

func (p *project) entryPoints() (text string) {
	for _, group := range slices.Sorted(maps.Keys(p.Project.EntryPoints)) {
		text += "[" + group + "]\n"
		for _, name := range slices.Sorted(maps.Keys(p.Project.EntryPoints[group])) {
			text += name + " = " + p.Project.EntryPoints[group][name] + "\n"
		}
	}
	return text
}

// wheel is a wheel in the making.
type wheel struct {
	names, texts []string
	record       strings.Builder // the file RECORD so far
}

func (w *wheel) add(name, text string) {
	sum := sha256.Sum256([]byte(text))
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	w.names, w.texts = append(w.names, name), append(w.texts, text)
}

// addPackage adds the files of a Python package, without its folder of pyproject.toml.
func (w *wheel) addPackage(name string) error {
	const root = "trinity_worker/"
	return fs.WalkDir(Worker, root+strings.ReplaceAll(name, ".", "/"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := Worker.ReadFile(path)
		w.add(strings.TrimPrefix(path, root), string(text))
		return err
	})
}

// epoch is the first time that a zip file can have.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// zip writes the files without compression, whose bytes could differ from program to program.
func (w *wheel) zip() ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, name := range w.names {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: epoch})
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(w.texts[i])); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
