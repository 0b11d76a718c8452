package python

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A wheel lists every file with its digest, and a program makes the same bytes each time.
func TestWheel(t *testing.T) {
	name, data, err := Wheel("v0.3.0 (fcf345e1, Modified)")
	if err != nil {
		t.Fatal(err)
	}
	version := fmt.Sprintf("%d+v0.3.0.fcf345e1.modified", Protocol)
	if want := "trinity_worker-" + version + "-py3-none-any.whl"; name != want {
		t.Errorf("the wheel is called %s, want %s", name, want)
	}
	if _, again, _ := Wheel("v0.3.0 (fcf345e1, Modified)"); !bytes.Equal(data, again) {
		t.Error("a second wheel has other bytes")
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	texts, info := map[string]string{}, "trinity_worker-"+version+".dist-info/"
	for _, f := range z.File {
		texts[f.Name] = string(unzipped(t, f))
	}
	checkRecord(t, z, info)
	for file, want := range map[string]string{
		"trinity_worker/__init__.py": fmt.Sprintf("\nPROTOCOL = %d\n", Protocol), "trinity_worker/py.typed": "",
		info + "METADATA": "\nVersion: " + version + "\n", info + "WHEEL": "Tag: py3-none-any",
	} {
		if text, ok := texts[file]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s is %q, want %q in it", file, text, want)
		}
	}
}

// checkRecord compares a wheel's files with its list of them, which has the digest of each.
func checkRecord(t *testing.T, z *zip.Reader, info string) {
	t.Helper()
	var want, got string
	for _, f := range z.File {
		if data := unzipped(t, f); f.Name == info+"RECORD" {
			got = string(data)
			want += f.Name + ",,\n"
		} else {
			sum := sha256.Sum256(data)
			want += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		}
	}
	if got != want {
		t.Errorf("RECORD is\n%s\nwant\n%s", got, want)
	}
}

func unzipped(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEntryPoints(t *testing.T) {
	var p project
	p.Project.EntryPoints = map[string]map[string]string{"b": {"y": "m:f", "x": "m:g"}, "a": {"z": "n:h"}}
	if got, want := p.entryPoints(), "[a]\nz = n:h\n[b]\nx = m:g\ny = m:f\n"; got != want {
		t.Errorf("entry points %q, want %q", got, want)
	}
}

// pip installs the wheel, and Python imports it. A driver of another protocol is one line.
func TestWheelIsInstalled(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-m", "pip", "--version").Run() != nil {
		missing(t, "there is no python3 with pip")
	}
	name, data, err := Wheel("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	wheel, target := filepath.Join(dir, name), filepath.Join(dir, "installed")
	if err := os.WriteFile(wheel, data, 0o600); err != nil {
		t.Fatal(err)
	}
	pip := exec.Command(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const use = `import importlib.metadata as m, trinity_worker as w
print(m.version("trinity-worker"), w.PROTOCOL, w.mismatch("") or w.mismatch(str(w.PROTOCOL)) or "agree"); print(w.mismatch("7"))`
	ask := exec.Command(python, "-c", use)
	ask.Env = append(os.Environ(), "PYTHONPATH="+target)
	out, err := ask.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := fmt.Sprintf("%d %d agree\nthis trinity_worker speaks protocol %d, the driver 7: install the wheel that the driver's command "+
		"trinity worker writes\n", Protocol, Protocol, Protocol)
	if string(out) != want {
		t.Errorf("Python says\n%s\nwant\n%s", out, want)
	}
}
