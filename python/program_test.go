package python

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// missing is trinitytest.Missing, whose package needs this one.
func missing(t *testing.T, how string) {
	t.Helper()
	if os.Getenv("TRINITY_REAL") == "required" {
		t.Fatalf("TRINITY_REAL=required: %s", how)
	}
	t.Skip(how)
}

// The test's own program is the one that wheels install: it prints its arguments.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.TrimSuffix(name, ".exe") == "trinity" {
		fmt.Println("the program got", os.Args[1:])
		os.Exit(7)
	}
	os.Exit(m.Run())
}

var ownWheel = sync.OnceValues(func() (name string, data []byte) {
	self, _ := os.Executable()
	name, data, err := ProgramWheel(self, runtime.GOOS+"_"+runtime.GOARCH)
	if err != nil {
		panic(err)
	}
	return name, data
})

func TestProgramWheel(t *testing.T) {
	name, data := ownWheel()
	self, _ := os.Executable()
	if _, again, err := ProgramWheel(self, ""); err != nil || !bytes.Equal(data, again) {
		t.Error("a second wheel has other bytes", err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]fs.FileMode{}
	var metadata, list, licence []byte
	for _, f := range z.File {
		names[f.Name] = f.Mode()
		switch {
		case strings.HasSuffix(f.Name, "/METADATA"):
			metadata = unzipped(t, f)
		case strings.HasSuffix(f.Name, ".cdx.json"):
			list = unzipped(t, f)
		case strings.HasSuffix(f.Name, "/LICENSE"):
			licence = unzipped(t, f)
		}
		if year := f.Modified.Year(); year != 1980 {
			t.Errorf("%s is of %d", f.Name, year)
		}
	}
	for _, name := range []string{"trinity_go/py.typed", "trinity_go/__main__.py", "trinity_worker/__main__.py"} {
		if names[name] != 0o644 {
			t.Errorf("%s has the mode %v", name, names[name])
		}
	}
	for name, mode := range names {
		if strings.Contains(name, ".data/scripts/") != (mode == 0o755) {
			t.Errorf("%s has the mode %v", name, mode)
		}
	}
	for _, line := range []string{
		"Name: trinity-go", "License-Expression: Apache-2.0", "Requires-Python: >=3.10", "Provides-Extra: notebook", "Provides-Extra: torch",
		`Requires-Dist: torch>=2.6 ; extra == "torch"`, "# trinity-go",
	} {
		if !slices.Contains(strings.Split(string(metadata), "\n"), line) {
			t.Errorf("METADATA has no line %s", line)
		}
	}
	for _, line := range strings.Split(string(metadata), "\n") {
		if strings.HasPrefix(line, "Requires-Dist: ") && !strings.Contains(line, " ; extra == ") {
			t.Errorf("the wheel depends on others: %s", line)
		}
	}
	checkRecord(t, z, strings.Join(strings.Split(name, "-")[:2], "-")+".dist-info/")
	program, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := components(t, list), modulesOf(program); !slices.Equal(got, want) {
		t.Errorf("the list of modules is %s, want %s", got, want)
	}
	if whole, err := os.ReadFile("../LICENSE"); err != nil || !bytes.Equal(whole, licence) {
		t.Error("the wheel has another licence", err)
	}
}

// modulesOf returns what a program is made of as go version -m says it, but for the program itself.
func modulesOf(info *buildinfo.BuildInfo) []string {
	all := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m.Path+"@"+m.Version)
	}
	return all
}

// components returns the modules in a list of them.
func components(t *testing.T, list []byte) (all []string) {
	t.Helper()
	var text struct {
		Format     string `json:"bomFormat"`
		Components []struct{ PURL string }
	}
	if err := json.Unmarshal(list, &text); err != nil || text.Format != "CycloneDX" {
		t.Fatal(err, string(list))
	}
	for _, c := range text.Components {
		all = append(all, strings.TrimPrefix(c.PURL, "pkg:golang/"))
	}
	return all
}

// What this package reads of a program is what debug/buildinfo reads.
func TestBuildInfo(t *testing.T) {
	other, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{os.Args[0], other} {
		want, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := buildInfo(slices.Concat([]byte("0123\xff Go buildinf: unaligned!!!!"), data)); got == nil || got.String() != want.String() {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func FuzzBuildInfo(f *testing.F) {
	f.Add([]byte("\xff Go buildinf:\x08\x02                \x03go1\x02ab"))
	f.Add([]byte("0123\xff Go buildinf:\x08\x02"))
	f.Fuzz(func(_ *testing.T, data []byte) { buildInfo(data) })
}

// A program with plug-ins of its own has this module as a dependency.
func TestModules(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Path: "own", Version: "v1.0.0"}, Deps: []*debug.Module{
		{Path: "a", Version: "v1.2.3"}, {Path: modulePath, Version: "v0.4.0"}, {Path: "b", Replace: &debug.Module{Path: "c", Version: "v2.0.0"}},
	}}
	main, err := moduleOf(info)
	if err != nil || main.Version != "v0.4.0" {
		t.Fatal(main, err)
	}
	text, err := modules(info, main)
	var list struct {
		Components []struct{ Name, Version, PURL string }
	}
	if err != nil || json.Unmarshal(text, &list) != nil {
		t.Fatal(err, string(text))
	}
	if got, want := fmt.Sprint(list.Components[1:]), "[{a v1.2.3 pkg:golang/a@v1.2.3} {c v2.0.0 pkg:golang/c@v2.0.0}]"; got != want {
		t.Errorf("the modules are %s, want %s", got, want)
	}
}

func TestProgramWheelRefuses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ binary, platform, want string }{
		{plain, "", plain + " is no program that Go has built"},
		{other, "", other + " is the program cmd/go, which has no module github.com/trinity-go/trinity"},
		{self, "plan9_386", fmt.Sprintf("%s is a program for %s_%s, not for plan9_386", self, runtime.GOOS, runtime.GOARCH)},
	} {
		if _, _, err := ProgramWheel(c.binary, c.platform); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// The right values are those that packaging.version of PyPA parses, in this order.
func TestPythonVersion(t *testing.T) {
	for _, c := range []struct {
		of         string
		isModified bool
		want       string
	}{
		{"(devel)", false, "0.0.0.dev0"},
		{"", true, "0.0.0.dev0+modified"},
		{"v0.0.0-20261129223009-9398bdb61ca6", false, "0.0.0.dev20261129223009+9398bdb61ca6"},
		{"v0.0.0-20261129223009-9398bdb61ca6+dirty", true, "0.0.0.dev20261129223009+9398bdb61ca6.modified"},
		{"v0.4.1-0.20261129223009-9398bdb61ca6", false, "0.4.1.dev20261129223009+9398bdb61ca6"},
		{"v0.5.0-rc.1.0.20261129223009-9398bdb61ca6", false, "0.5.0.dev20261129223009+9398bdb61ca6"},
		{"v0.5.0-beta.2", false, "0.5.0b2"},
		{"v0.5.0-rc1", false, "0.5.0rc1"},
		{"v0.5.0-rc.1", false, "0.5.0rc1"},
		{"v0.5.0-next", false, "0.5.0.dev0"},
		{"v0.5.0", false, "0.5.0"},
		{"v0.5.0", true, "0.5.0+modified"},
	} {
		if got := pythonVersion(c.of, c.isModified); got != c.want {
			t.Errorf("%s, modified %t: %s, want %s", c.of, c.isModified, got, c.want)
		}
	}
}

// pip installs the program under two names, beside its packages, and leaves nothing when it removes them.
func TestProgramIsInstalled(t *testing.T) {
	python, err := exec.LookPath("python3")
	dir := t.TempDir()
	venv := filepath.Join(dir, "venv")
	if err != nil || exec.Command(python, "-m", "venv", venv).Run() != nil {
		missing(t, "there is no python3 with venv")
	}
	name, data := ownWheel()
	wheel := filepath.Join(dir, name)
	if err := os.WriteFile(wheel, data, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(venv, "bin")
	inside := filepath.Join(bin, "python")
	says := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "other")+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput() // the program ends with status 7
		if text := strings.ReplaceAll(string(out), venv, "VENV"); text != want {
			t.Errorf("%s says\n%s\nwant\n%s", args, text, want)
		}
	}
	pip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(inside, append([]string{"-m", "pip"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("pip %s: %v\n%s", args, err, out)
		}
	}
	const where = "import trinity_go; print(trinity_go.binary())"
	before := listed(t, venv)
	pip("install", "--quiet", "--no-index", wheel)
	pip("check")
	says("the program got [a b]\n", filepath.Join(bin, "trinity"), "a", "b")
	says("the program got [run --config x]\n", filepath.Join(bin, "trinity-go"), "run", "--config", "x")
	says("the program got []\n", inside, "-m", "trinity_go")
	says("VENV/bin/trinity\n", inside, "-c", where)

	// Another package has the command trinity.
	other := filepath.Join(dir, "other", "trinity")
	if err := os.Mkdir(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	says("trinity-go: the command trinity is "+other+", which is another program; this is VENV/bin/trinity\nthe program got [version]\n",
		filepath.Join(bin, "trinity-go"), "version")
	if err := os.WriteFile(filepath.Join(bin, "trinity"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const repair = "install it with: pip install --force-reinstall --no-deps trinity-go\n"
	says("trinity-go: VENV/bin/trinity is not the program of trinity-go: another package has replaced it; "+repair,
		filepath.Join(bin, "trinity-go"))
	if err := os.Remove(filepath.Join(bin, "trinity")); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(filepath.Join(bin, "trinity-go")).CombinedOutput()
	if !strings.Contains(string(out), "there is no trinity in ") || !strings.HasSuffix(string(out), repair) {
		t.Errorf("without the program: %s", out)
	}

	pip("install", "--quiet", "--no-index", "--force-reinstall", wheel)
	says("VENV/bin/trinity\n", inside, "-c", where)
	pip("uninstall", "--quiet", "--yes", "trinity-go")
	if after := listed(t, venv); !slices.Equal(before, after) {
		t.Errorf("there were %d files, and there are %d", len(before), len(after))
	}

	target := filepath.Join(dir, "target")
	pip("install", "--quiet", "--no-index", "--target", target, wheel)
	cmd := exec.Command(inside, "-c", where)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+target)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != filepath.Join(target, "bin", "trinity")+"\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// listed returns the files below a directory, without what Python compiles.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "__pycache__" {
			return fs.SkipDir
		}
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
