package python

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// modulePath is the module of the program.
const modulePath = "github.com/trinity-go/trinity"

// platforms are the tags of wheels. The program is static, so its wheel for Linux fits glibc and musl; macOS 12 is
// what Go asks for.
var platforms = map[string]string{
	"linux_amd64":   "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
	"linux_arm64":   "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
	"darwin_amd64":  "macosx_12_0_x86_64",
	"darwin_arm64":  "macosx_12_0_arm64",
	"windows_amd64": "win_amd64",
	"windows_arm64": "win_arm64",
}

// ProgramWheel returns a wheel for pip that installs a binary of the program and the packages trinity_go and
// trinity_worker, and the wheel's file name. platform is the one that the binary must be for, such as linux_amd64; ""
// is any. The version is that of the binary. Equal binaries give equal bytes.
func ProgramWheel(path, platform string) (name string, data []byte, err error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	info := buildInfo(program)
	if info == nil {
		return "", nil, fmt.Errorf("%s is no program that Go has built", path)
	}
	main, err := moduleOf(info)
	if err != nil {
		return "", nil, fmt.Errorf("%s %w", path, err)
	}
	is := setting(info, "GOOS") + "_" + setting(info, "GOARCH")
	tag, ok := platforms[is]
	switch {
	case platform != "" && platform != is:
		return "", nil, fmt.Errorf("%s is a program for %s, not for %s", path, is, platform)
	case !ok:
		return "", nil, fmt.Errorf("%s is a program for %s, and there are wheels for %s",
			path, is, strings.Join(slices.Sorted(maps.Keys(platforms)), ", "))
	}
	w, p, err := packagesOf(front)
	if err == nil {
		err = w.addWorker(p)
	}
	if err != nil {
		return "", nil, err
	}
	version := pythonVersion(main.Version, setting(info, "vcs.modified") == "true")
	base := strings.ReplaceAll(p.Project.Name, "-", "_") + "-" + version
	script := file{base + ".data/scripts/trinity", program, 0o755}
	if strings.HasPrefix(is, "windows") {
		script.name += ".exe"
	}
	w.files = append(w.files, script)
	list, err := modules(info, main)
	if err != nil {
		return "", nil, err
	}
	w.add(base+".dist-info/sboms/trinity.cdx.json", list)
	return w.finish(p, version, tag)
}

// addWorker adds the packages of trinity_worker. An extra that requires it then requires what they require.
func (w *wheel) addWorker(p *project) error {
	of, err := readProject(worker)
	if err != nil {
		return err
	}
	for name, requires := range p.Project.Extras {
		if slices.Equal(requires, []string{of.Project.Name}) {
			p.Project.Extras[name] = of.Project.Requires
		}
	}
	p.Project.EntryPoints = of.Project.EntryPoints
	return w.addPackages(of)
}

// buildInfo returns what Go has written into a program about how it was built; nil if there is nothing.
// [debug/buildinfo] does so too, and knows the formats of programs, which takes 0.3 MB.
func buildInfo(program []byte) *debug.BuildInfo {
	const align, head, inline = 16, 32, 1 << 1 // the last is a flag: strings follow the head
	magic := []byte("\xff Go buildinf:")
	for at := 0; at+head <= len(program); at += align {
		if !bytes.HasPrefix(program[at:], magic) || program[at+len(magic)+1]&inline == 0 {
			continue
		}
		version, rest := cutString(program[at+head:])
		text, _ := cutString(rest)
		if len(text) < 2*align { // it lies between two marks of 16 bytes
			continue
		}
		// Other bytes of the program, such as the mark in this function, may look like it, and have no path.
		if info, err := debug.ParseBuildInfo(string(text[align : len(text)-align])); err == nil && info.Path != "" {
			info.GoVersion = string(version)
			return info
		}
	}
	return nil
}

// cutString returns a string with its length before it, and what follows.
func cutString(data []byte) (text, rest []byte) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) {
		return nil, nil
	}
	return data[size : size+int(n)], data[size+int(n):]
}

// moduleOf returns the module of the program in a binary, which may be one with plug-ins of its own.
func moduleOf(info *debug.BuildInfo) (*debug.Module, error) {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath {
			return cmp.Or(m.Replace, m), nil
		}
	}
	return nil, fmt.Errorf("is the program %s, which has no module %s", info.Path, modulePath)
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// preRelease is what a version of Go has after the release, such as rc.1.
var preRelease = regexp.MustCompile(`^([a-z]+)\.?(\d+)$`)

// pythonVersion returns a version of Go as one of Python (PEP 440). That of a commit between releases is a development
// release: it sorts before the release that follows.
func pythonVersion(of string, isModified bool) string {
	text, local := semver.Canonical(of), ""
	release, pre, _ := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	switch {
	case text == "": // (devel)
		release, pre = "0.0.0.dev0", ""
	case module.IsPseudoVersion(text):
		at, _ := module.PseudoVersionTime(text) // it is one, so it has both
		local, _ = module.PseudoVersionRev(text)
		release, pre = release+".dev"+at.UTC().Format("20060102150405"), ""
	}
	if pre != "" {
		m := preRelease.FindStringSubmatch(pre)
		if m == nil {
			m = []string{"", "", "0"}
		}
		release += cmp.Or(map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]], ".dev") + m[2]
	}
	if isModified {
		local = strings.TrimPrefix(local+".modified", ".")
	}
	if local != "" {
		release += "+" + local
	}
	return release
}

// modules returns a list of the modules in a binary (an SBOM in CycloneDX's format, 1.6).
func modules(info *debug.BuildInfo, main *debug.Module) ([]byte, error) {
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	of := func(m *debug.Module, kind string) component {
		m = cmp.Or(m.Replace, m)
		return component{kind, m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version}
	}
	all := []component{{"library", "std", info.GoVersion, "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Path != modulePath {
			all = append(all, of(m, "library"))
		}
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{"component": of(main, "application")}, "components": all,
	}, "", " ")
}
