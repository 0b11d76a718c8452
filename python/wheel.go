package python

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
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
		Readme      string
		License     string
		Licenses    []string `toml:"license-files"`
		Python      string   `toml:"requires-python"`
		Requires    []string `toml:"dependencies"`
		Scripts     map[string]string
		Extras      map[string][]string          `toml:"optional-dependencies"`
		EntryPoints map[string]map[string]string `toml:"entry-points"`
	}
	Tool struct{ Setuptools struct{ Packages []string } }

	root string // the folder of pyproject.toml
}

// readProject reads the pyproject.toml of a folder.
func readProject(root string) (p *project, err error) {
	text, err := files.ReadFile(root + "/pyproject.toml")
	if err != nil {
		return nil, err
	}
	p = &project{root: root}
	if err := toml.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s/pyproject.toml: %w", root, err)
	}
	return p, nil
}

// Wheel returns the package trinity_worker as a wheel for pip, and the wheel's file name. The wheel's version is
// the protocol's and, as its local part, that of the program. Equal programs give equal bytes.
func Wheel(program string) (name string, data []byte, err error) {
	w, p, err := packagesOf(worker)
	if err != nil {
		return "", nil, err
	}
	version := fmt.Sprint(Protocol)
	if local := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(program), "."), "."); local != "" {
		version += "+" + local
	}
	return w.finish(p, version, "any")
}

// Files returns the files of the package trinity_worker, by the path from the directory to import it from. With
// them a Python finds the package's plug-ins too.
func Files() (map[string][]byte, error) {
	w, p, err := packagesOf(worker)
	if err != nil {
		return nil, err
	}
	w.describe(p, fmt.Sprint(Protocol), "any")
	all := map[string][]byte{}
	for _, f := range w.files {
		all[f.name] = f.data
	}
	return all, nil
}

// Plugins returns the worker for classes and functions of users: a program that `python -c` runs, and the modules
// of trinity_go by their paths, which the program reads with the first line of its input.
func Plugins() (boot string, modules map[string]string, err error) {
	p, err := readProject(front)
	if err != nil {
		return "", nil, err
	}
	w := &wheel{}
	if err := w.addPackages(p); err != nil {
		return "", nil, err
	}
	modules = map[string]string{}
	for _, f := range w.files {
		modules[f.name] = string(f.data)
	}
	text, err := files.ReadFile(front + "/boot.py")
	return string(text), modules, err
}

func (p *project) metadata(version string) string {
	about := &p.Project
	text := fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\n", about.Name, version, about.Description)
	if about.License != "" {
		text += "License-Expression: " + about.License + "\n"
	}
	for _, name := range about.Licenses {
		text += "License-File: " + name + "\n"
	}
	text += "Requires-Python: " + about.Python + "\n"
	for _, requirement := range about.Requires {
		text += "Requires-Dist: " + requirement + "\n"
	}
	for _, extra := range slices.Sorted(maps.Keys(about.Extras)) {
		text += "Provides-Extra: " + extra + "\n"
		for _, requirement := range about.Extras[extra] {
			text += fmt.Sprintf("Requires-Dist: %s ; extra == %q\n", requirement, extra)
		}
	}
	if readme, err := files.ReadFile(p.root + "/" + about.Readme); err == nil {
		text += "Description-Content-Type: text/markdown\n\n" + string(readme)
	}
	return text
}

func (p *project) entryPoints() (text string) {
	groups := maps.Clone(p.Project.EntryPoints)
	if len(p.Project.Scripts) > 0 {
		if groups == nil {
			groups = map[string]map[string]string{}
		}
		groups["console_scripts"] = p.Project.Scripts
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		text += "[" + group + "]\n"
		for _, name := range slices.Sorted(maps.Keys(groups[group])) {
			text += name + " = " + groups[group][name] + "\n"
		}
	}
	return text
}

// wheel is a wheel in the making.
type wheel struct{ files []file }

type file struct {
	name string
	data []byte
	mode fs.FileMode
}

func (w *wheel) add(name string, data []byte) {
	w.files = append(w.files, file{name, data, 0o644})
}

// packagesOf begins a wheel with the packages of the project in a folder.
func packagesOf(root string) (w *wheel, p *project, err error) {
	if p, err = readProject(root); err != nil {
		return nil, nil, err
	}
	w = &wheel{}
	return w, p, w.addPackages(p)
}

// addPackages adds the files of a project's Python packages, each without the project's folder.
func (w *wheel) addPackages(p *project) error {
	for _, name := range p.Tool.Setuptools.Packages {
		dir := p.root + "/" + strings.ReplaceAll(name, ".", "/")
		entries, err := files.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() { // a package of its own
				continue
			}
			data, err := files.ReadFile(dir + "/" + e.Name())
			if err != nil {
				return err
			}
			w.add(strings.TrimPrefix(dir, p.root+"/")+"/"+e.Name(), data)
		}
	}
	return nil
}

// describe adds the folder that tells pip about the wheel, and returns the wheel's name without its tags.
func (w *wheel) describe(p *project, version, platform string) (base string) {
	base = strings.ReplaceAll(p.Project.Name, "-", "_") + "-" + version
	info := base + ".dist-info/"
	w.add(info+"METADATA", []byte(p.metadata(version)))
	text := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: trinity\nRoot-Is-Purelib: %t\n", platform == "any")
	for _, tag := range strings.Split(platform, ".") {
		text += "Tag: py3-none-" + tag + "\n"
	}
	w.add(info+"WHEEL", []byte(text))
	for _, name := range p.Project.Licenses {
		if text, err := files.ReadFile(p.root + "/" + name); err == nil { // else it is not embedded, which a test sees
			w.add(info+"licenses/"+name, text)
		}
	}
	if points := p.entryPoints(); points != "" {
		w.add(info+"entry_points.txt", []byte(points))
	}
	record := ""
	for _, f := range w.files {
		sum := sha256.Sum256(f.data)
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	w.add(info+"RECORD", []byte(record+info+"RECORD,,\n"))
	return base
}

// finish returns the wheel of a project and a platform, and its file name.
func (w *wheel) finish(p *project, version, platform string) (name string, data []byte, err error) {
	base := w.describe(p, version, platform)
	data, err = w.zip()
	return base + "-py3-none-" + platform + ".whl", data, err
}

// epoch is the first time that a zip file can have.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *wheel) zip() ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return newDeflater(out), nil })
	for _, file := range w.files {
		head := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: epoch}
		head.SetMode(file.mode)
		f, err := z.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(file.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
