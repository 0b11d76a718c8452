package doctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity/trinitytest"
)

// makeSite makes a site of a folder of pages, or skips the test if the module that makes it cannot be had. It returns the folder
// of the site, and what the maker says.
func makeSite(t *testing.T, docs string) (out, said string, err error) {
	t.Helper()
	maker := filepath.Join(repository(t), ".ci/site")
	out = filepath.Join(t.TempDir(), "site")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = maker, append(os.Environ(), "GOWORK=off")
		return cmd
	}
	if said, err := command("mod", "download").CombinedOutput(); err != nil {
		if os.Getenv("TRINITY_REAL") == "required" {
			t.Fatalf("go mod download in .ci/site: %v: %s", err, said)
		}
		t.Skipf("the modules of .ci/site cannot be had: %v: %s", err, said)
	}
	text, err := command("run", ".", "-docs", docs, "-out", out).CombinedOutput()
	return out, string(text), err
}

// ownSite makes the site of docs.
func ownSite(t *testing.T) string {
	t.Helper()
	site, said, err := makeSite(t, filepath.Join(repository(t), "docs"))
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return site
}

// A link that leads nowhere is an error, and so is a page that is not there.
func TestSiteNamesBrokenLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":           "# All\n\n## Guide\n\n- [A](guide/a.md): a\n- [D](decisions/README.md): d\n",
		"decisions/README.md": "# D\n\n- [1](1.md)\n", "decisions/1.md": "# 1\n",
		"guide/a.md": "# A\n[x](../README.md#guide) [b](b.md) [c](../decisions#none) ![p](p.png) [d](../decisions/1.md#1)\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, said, err := makeSite(t, dir)
	want := "site: docs/guide/a.md links to b.md, which is not there\n" +
		"site: docs/guide/a.md links to ../decisions#none, which has no such heading\n" +
		"site: docs/guide/a.md links to p.png, which is not there\n"
	if err == nil || !strings.HasPrefix(said, want) {
		t.Errorf("%v: %s\nwant\n%s", err, said, want)
	}
}

// The site has every page in the order of docs/README.md, and each leads to the next.
func TestSiteHasEveryPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a program")
	}
	site := ownSite(t)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	at := "index.html"
	for _, p := range ordered(t, repository(t)) {
		want := strings.TrimSuffix(strings.TrimSuffix(p.Path, "README.md")+"index.html", ".mdindex.html")
		if !strings.HasSuffix(want, "index.html") {
			want += ".html"
		}
		m := next.FindStringSubmatch(read(t, filepath.Join(site, at)))
		if m == nil {
			t.Fatalf("%s has no next page, want %s", at, want)
		}
		if at = filepath.ToSlash(filepath.Join(filepath.Dir(at), m[1])); at != want {
			t.Fatalf("the next page is %s, want %s", at, want)
		}
	}
	if next.MatchString(read(t, filepath.Join(site, at))) {
		t.Errorf("the last page, %s, has a next one", at)
	}
}

// A browser opens every page: none is wider than a telephone or a screen, no script fails, and the search finds a page.
func TestSiteInBrowser(t *testing.T) {
	trinitytest.Long(t, "it opens 70 pages in a browser", "docs", ".ci/site")
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no chromium-headless-shell to open the site in")
	}
	site := ownSite(t)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox)
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	if err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("a script failed: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		}
	}); err != nil {
		t.Skipf("the browser does not start: %v", err)
	}
	do := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		limited, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		if err := chromedp.Do(limited, actions...); err != nil {
			t.Fatal(err)
		}
	}
	text := func(expression string) string {
		t.Helper()
		limited, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		got, err := chromedp.Run(limited, chromedp.Evaluate[string]("String("+expression+")"))
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return got
	}
	do(chromedp.Navigate("about:blank"))
	address := func(name string) string { return "file://" + filepath.ToSlash(filepath.Join(site, name)) }
	pages, err := filepath.Glob(filepath.Join(site, "*/*.html"))
	if err != nil || len(pages) < 60 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, width := range []int64{400, 1440} {
		do(chromedp.EmulateViewport(width, 900))
		for _, page := range pages {
			do(chromedp.Navigate("file://" + filepath.ToSlash(page)))
			if wide := text(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
				t.Errorf("%s is wider than %d pixels", page, width)
			}
			if broken := text(`[...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src)`); broken != "" {
				t.Errorf("%s lacks the pictures %s", page, broken)
			}
		}
	}
	do(chromedp.Navigate(address("guide/concepts.html")), chromedp.SendKeys("#search", "staleness"), chromedp.WaitVisible("#found a"))
	if found := text(`[...document.querySelectorAll("#found a")].map(a => a.textContent)`); !strings.Contains(found, "Who waits for whom") {
		t.Errorf("the search for staleness finds %s", found)
	}
	const colour = `getComputedStyle(document.body).backgroundColor`
	before := text(colour)
	do(chromedp.Click("#theme"))
	if after := text(colour); after == before {
		t.Errorf("the page is %s in both colours", after)
	}
	do(chromedp.Click(`[rel=next]`), chromedp.WaitVisible(`[aria-current][href$="own-data.html"]`))
	if title := text("document.title"); !strings.HasPrefix(title, "Your own data") {
		t.Errorf("the page after concepts is %q", title)
	}
}
