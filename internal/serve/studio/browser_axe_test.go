package studio_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The release of axe-core that looks for what keeps people from using the page. npm has it; neither the
// repository nor the binary does.
const (
	axeVersion = "4.10.3"
	axeSum     = "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
)

// axeCore returns the source of axe-core, or skips the test.
func axeCore(t *testing.T) (source string) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm, which has axe-core, is not on PATH")
	}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	dir := t.TempDir()
	pack := exec.CommandContext(ctx, npm, "pack", "--prefer-offline", "--ignore-scripts", "axe-core@"+axeVersion)
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		t.Skipf("npm does not give axe-core: %v: %.300s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha512.New()
	unpacked, err := gzip.NewReader(io.TeeReader(f, sum))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "package/axe.min.js" {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			source = string(text)
		}
	}
	if _, err := io.Copy(sum, f); err != nil { // what is behind the archive counts, too
		t.Fatal(err)
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != axeSum {
		t.Fatalf("axe-core %s has the checksum %s, want %s", axeVersion, got, axeSum)
	}
	return source
}

// loads puts axe-core into the page that is open.
func (w *window) loads(t *testing.T, axe string) {
	t.Helper()
	ctx, end := context.WithTimeout(w.ctx, patience)
	defer end()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => {"+axe+"\n})() || true")); err != nil {
		t.Fatalf("axe-core does not load: %v", err)
	}
}

// hasNoBarriers looks at the page that is open, light and dark.
func (w *window) hasNoBarriers(t *testing.T, axe, what string) {
	t.Helper()
	w.loads(t, axe)
	for _, theme := range []string{"light", "dark"} {
		w.findsBarriers(t, theme, what)
	}
}

// findsBarriers runs axe-core on the page that is open, and fails for what is serious or critical. In the
// dark it only looks for what cannot be read.
func (w *window) findsBarriers(t *testing.T, theme, what string) {
	t.Helper()
	const find = `(document.documentElement.dataset.theme = document.documentElement.style.colorScheme = %[1]q) &&
		axe.run(document, {resultTypes: ["violations"], preload: false,
		...(%[1]q === "dark" ? {runOnly: ["color-contrast"]} : {})}).then((r) => r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + n.html.slice(0, 200) + " " +
			(n.any[0] || n.all[0] || n.none[0] || {message: v.help}).message)))`
	for _, barrier := range value[[]string](t, w, fmt.Sprintf(find, theme)) {
		t.Errorf("%s %s: %s", theme, what, barrier)
	}
}
