package studio_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
)

var update = flag.Bool("update", false, "write the pictures of docs/guide/studio")

const patience = time.Minute // for what a page shows; a slow machine trains or loads a model meanwhile

// window is a window of the browser that all tests of the page share.
type window struct {
	ctx  context.Context
	site string

	mu       sync.Mutex
	problems []string // errors of the console, and requests to other hosts
}

// openWindow starts the browser, or skips the test.
func openWindow(t *testing.T, site string) *window {
	t.Helper()
	var path string
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium-headless-shell to run the page in")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1100, 640))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	w := &window{ctx: ctx, site: site}
	if err := chromedp.Listen(ctx, w.heard); err != nil {
		t.Skipf("the browser does not start: %v", err)
	}
	w.do(t, chromedp.Navigate(site))
	return w
}

// heard notes what must not happen.
func (w *window) heard(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			text, _ := json.Marshal(e.Args)
			problem = "console: " + string(text)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			problem = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, w.site) && !strings.HasPrefix(e.Request.URL, "data:") {
			problem = "request to " + e.Request.URL
		}
	}
	if problem != "" {
		w.mu.Lock()
		w.problems = append(w.problems, problem)
		w.mu.Unlock()
	}
}

// noProblems fails the test if something happened that must not.
func (w *window) noProblems(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		t.Errorf("%.500s", p)
	}
	w.problems = nil
}

func (w *window) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, end := context.WithTimeout(w.ctx, patience)
	defer end()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// value evaluates an expression on the page, which may be a promise.
func value[T any](t *testing.T, w *window, expression string) T {
	t.Helper()
	v, err := evaluate[T](w, expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func evaluate[T any](w *window, expression string) (T, error) {
	ctx, end := context.WithTimeout(w.ctx, patience)
	defer end()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression holds on the page. A page that is just being replaced by the next one answers
// with an error, so an error is only "not yet".
func (w *window) until(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		holds, err := evaluate[bool](w, "!!("+expression+")")
		if holds && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never holds at %s (%v); the page says:\n%.2000s", expression, value[string](t, w, "location.hash"), err,
				value[string](t, w, "document.body.innerText"))
		}
	}
}

// show opens a route and waits until it shows a text.
func (w *window) show(t *testing.T, route, text string) {
	t.Helper()
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(w.site+"/#/"+route))
	w.until(t, says(text))
}

// says is the expression that holds when the page shows a text.
func says(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

const both = "sums/lr1e-5_seed0"

var (
	firstRollout = trinity.ExperienceID{Step: 20, Task: "sums/1"}
	firstTokens  = "tokens?run=" + url.QueryEscape(both) + "&step=20&rollout=" + url.QueryEscape(firstRollout.String())
)

// routes are the pages, each with a text that it shows.
var routes = []struct{ name, route, text string }{
	{"runs", "runs", both[5:]},
	{"curves", "curves?run=" + url.QueryEscape(both) + "&run=sums%2Flr3e-5_seed1", "rollout/reward/mean"},
	{"groups", "curves?run=" + url.QueryEscape(both) + "&run=sums%2Flr1e-5_seed1&band=1&smooth=0.6&log=1&x=time", "rollout/reward/mean"},
	{"compare", "compare?run=" + url.QueryEscape(both) + "&run=sums%2Flr3e-5_seed0", "algorithm.optimizer.lr"},
	{"same task", "compare?run=" + url.QueryEscape(both) + "&run=sums%2Flr1e-5_seed1&same=sums%2F1", "The same task"},
	{"rollouts", "rollouts?run=" + url.QueryEscape(both) + "&step=20", "sums/1"},
	{"group", "group?run=" + url.QueryEscape(both) + "&step=20&task=sums%2F1&explore_step=20", "answer is 7"},
	{"tokens", firstTokens, "three and four"},
	{"time", "time?run=" + url.QueryEscape(both), "trainer"},
}

// All pages work in a real browser, on what real writers recorded.
func TestPagesInABrowser(t *testing.T) {
	root := runs(t)
	live := record(t, root, "sums/live", "seed: 7\n")
	live.step(1, .1)
	record(t, root, "constructor", "").end(monitor.Stopped, "")
	record(t, root, "sums/damaged", "").end(monitor.Stopped, "")
	if err := os.WriteFile(filepath.Join(root, "sums/damaged/monitor", rundir.MetricsFile), []byte("no record\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer((&studio.Server{Dir: root, Version: "v1", Every: 10 * time.Millisecond}).Handler())
	t.Cleanup(server.Close) // after the browser, whose streams it waits for
	w := openWindow(t, server.URL)
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			w.show(t, r.route, r.text)
			w.noProblems(t)
			w.keep(t, r.name)
		})
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *window)
	}{
		{"filter", filters}, {"compared", compares}, {"same task", sideBySide}, {"curve", opensStep}, {"numbers", tellsNumbers},
		{"keyboard", keys}, {"narrow", fits}, {"chinese", speaksChinese}, {"dark", isDark}, {"system", followsSystem}, {"hostile", showsText},
		{"slow", waitsForAnswers}, {"gone", saysWhatLacks},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, w)
			w.noProblems(t)
		})
	}
	t.Run("updated", func(t *testing.T) { tellsUpdates(t, w, root) })
	t.Run("token", func(t *testing.T) { asksForToken(t, w, root) })
	t.Run("live", func(t *testing.T) {
		w.show(t, "curves?run=sums%2Flive&name=rollout%2Freward%2Fmean", "0.1")
		live.step(2, .4375)
		w.until(t, says("0.4375"))
		live.end(monitor.Stopped, "")
		w.noProblems(t)
	})
}

// filters: the list of runs shows those that have all words.
func filters(t *testing.T, w *window) {
	w.show(t, "runs?q=seed1", "lr3e-5_seed1")
	if value[bool](t, w, says("seed2")) {
		t.Error("the filter seed1 lets seed2 through")
	}
	w.show(t, "runs?q=failed", "the loss is NaN <script>")
}

// compares: the page shows what report.Compare computes, also by a metric that somebody chooses.
func compares(t *testing.T, w *window) {
	route := "compare?run=sums%2Ffailed"
	for seed := range 3 {
		for _, lr := range []string{"1e-5", "3e-5"} {
			route += fmt.Sprintf("&run=sums%%2Flr%s_seed%d", lr, seed)
		}
	}
	w.show(t, route, "confidence over seeds")
	text := value[string](t, w, "document.querySelector('.compare').innerText")
	for _, want := range []string{
		"sums/failed", "lr1e-5 (3)", "lr3e-5 (3)", "ppo", "1e-05", "(default)", "±",
		"failed, stopped or shorter", "(1 of 60, failed: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(w.site+"/#/"+route))
	w.until(t, "document.querySelector('.compare select option[value=\"perf/total_num_tokens\"]')")
	value[bool](t, w, "(() => { const s = document.querySelector('.compare select'); s.value = 'perf/total_num_tokens';"+
		" return s.dispatchEvent(new Event('change')); })()")
	w.until(t, "document.querySelector('.values th[scope=row]')?.innerText === 'perf/total_num_tokens'")
	w.until(t, "document.querySelector('.values th[scope=row] + td').innerText === '4,000 ± 0'")
}

// sideBySide: the answers of two runs to a task are beside one another, each in a step that one chooses,
// and two of them have their difference.
func sideBySide(t *testing.T, w *window) {
	w.show(t, "compare?run="+url.QueryEscape(both)+"&run=sums%2Flr1e-5_seed1&same=sums%2F1", "The same task")
	w.until(t, "document.querySelectorAll('.beside .column').length === 2 && document.querySelectorAll('.beside article').length === 8")
	const second = "document.querySelectorAll('.beside .column')[1]"
	if step := value[string](t, w, second+".querySelector('select').value"); step != "20" {
		t.Errorf("the newest step of the second run is %s", step)
	}
	value[bool](t, w, "(() => { const s = "+second+".querySelector('select'); s.value = '10';"+
		" return s.dispatchEvent(new Event('change')); })()")
	w.until(t, "location.hash.includes('at=60&at=10')")
	w.until(t, second+".querySelectorAll('article a')[0]?.href.includes('step=10')")
	w.until(t, "document.querySelector('.metrics .values tr')") // which moves the answers down
	for column := range 2 {
		w.do(t, chromedp.Click(chromedp.CSS(fmt.Sprintf(".beside .column:nth-child(%d) article:nth-of-type(%d) input", column+1, column+1))))
		w.until(t, fmt.Sprintf("document.querySelectorAll('.beside article.chosen').length === %d", column+1))
	}
	w.until(t, "document.querySelector('.difference del')?.innerText === '7' && document.querySelector('.difference ins')?.innerText === '8'")
	w.until(t, says("to seed1, answer 1"))
}

// opensStep: a click on a curve opens the rollouts of that step, also where the axis has the optimizer steps.
func opensStep(t *testing.T, w *window) {
	w.show(t, "curves?run="+url.QueryEscape(both)+"&name=rollout%2Freward%2Fmean", "rollout/reward/mean")
	w.until(t, "document.querySelector('.u-over') && document.querySelector('.controls select option[value=updates]')")
	value[bool](t, w, "(() => { const s = document.querySelector('.controls select'); s.value = 'updates';"+
		" return s.dispatchEvent(new Event('change', {bubbles: true})); })()")
	w.until(t, "location.hash.includes('x=updates')")
	w.until(t, "(() => { const p = document.querySelector('.plot'); p.focus();"+
		" p.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));"+
		" return document.querySelector('.tip')?.innerText.includes('180'); })()")
	at := value[[]float64](t, w, "(() => { const r = document.querySelector('.u-over').getBoundingClientRect();"+
		" return [r.left + r.width / 2, r.top + r.height / 3]; })()")
	w.do(t, chromedp.MouseEvent("mouseMoved", at[0], at[1]), chromedp.MouseClickXY(at[0], at[1]))
	w.until(t, "location.hash.startsWith('#/rollouts')")
	step := value[string](t, w, "new URLSearchParams(location.hash.split('?')[1]).get('step')")
	if step != "30" && step != "31" {
		t.Errorf("a click in the middle of 60 steps opens step %s", step)
	}
	w.until(t, says("sums/1"))
}

// tellsNumbers: the page of tokens tells the numbers of the token that the arrow keys come to.
func tellsNumbers(t *testing.T, w *window) {
	const position = 7
	w.show(t, firstTokens+fmt.Sprint("&at=", position), "three and four")
	number := strconv.FormatFloat(float64(float32(logprob(position, firstRollout.Run))), 'g', -1, 32)
	w.until(t, says(number))
}

// keys: Tab walks from the beginning of the page to its content, and keys change the page.
func keys(t *testing.T, w *window) {
	for _, page := range []struct {
		route, text, ready string
		order              []string // of some of what Tab comes to
	}{
		{"runs", both[5:], "true", []string{"Trinity studio", "Runs", "Curves", "Compare", "Keys", "Filter: name, algorithm, state, tag …"}},
		{"curves?run=" + url.QueryEscape(both) + "&name=actor%2Fgrad_norm", "actor/grad_norm", "document.querySelector('.u-over')",
			[]string{"Keys", "Remove: " + both, "Search metrics", "Over", "Smooth", "logarithmic", "Remove: actor/grad_norm", "actor/grad_norm"}},
		{firstTokens, "three and four", "document.querySelector('.lines span')",
			[]string{"Keys", "step 20", "at token 11", "Shade by", "spaces", "as messages", "The tokens. The arrow keys move.",
				"▾ user · 2 tokens + 1 of the template"}},
	} {
		w.show(t, page.route, page.text)
		w.until(t, page.ready)
		var seen []string
		for range 40 {
			w.do(t, chromedp.KeyEvent("\t"))
			at := value[string](t, w, "((e) => e === document.body ? '' : (e.getAttribute('aria-label') || e.labels?.[0]?.innerText ||"+
				" e.innerText || '').trim().split('\\n')[0].trim())(document.activeElement)")
			if len(seen) > 0 && at == seen[0] {
				break
			}
			seen = append(seen, at)
		}
		rest := seen
		for _, want := range append([]string{"Skip to the content"}, page.order...) {
			i := slices.Index(rest, want)
			if i < 0 {
				t.Errorf("%s: Tab does not come to %q in its place: %q", page.route, want, seen)
			}
			rest = rest[i+1:]
		}
	}
	w.show(t, "runs", both[5:])
	w.do(t, chromedp.KeyEvent("?"))
	w.until(t, "document.querySelector('dialog').open")
	w.do(t, chromedp.KeyEvent("?"), chromedp.KeyEvent("/"))
	w.until(t, "document.activeElement.type === 'search'")
	w.do(t, chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("g"), chromedp.KeyEvent("c"))
	w.until(t, "location.hash.startsWith('#/curves')")
}

// isNarrow fails if the page is wider than a telephone, which the window is now.
func (w *window) isNarrow(t *testing.T, name string) {
	t.Helper()
	const widest = "Math.max(document.documentElement.scrollWidth, document.getElementById('main').scrollWidth)"
	if width := value[float64](t, w, widest); width > 400 {
		t.Errorf("%s is %v pixels wide: %s", name, width, value[string](t, w, "[...document.querySelectorAll('main *')]"+
			".filter((e) => e.getBoundingClientRect().right > 400).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join('\\n')"))
	}
}

// fits: no page is wider than a telephone.
func fits(t *testing.T, w *window) {
	w.do(t, chromedp.EmulateViewport(400, 700))
	defer w.do(t, chromedp.EmulateViewport(1100, 640))
	for _, r := range routes {
		w.show(t, r.route, r.text)
		w.isNarrow(t, r.name)
	}
	if value[bool](t, w, "document.querySelector('header nav').offsetHeight > 0") {
		t.Error("the navigation is not folded")
	}
	w.do(t, chromedp.Click(chromedp.CSS("button.menu")))
	w.until(t, "document.querySelector('header nav').offsetHeight > 0")
}

func speaksChinese(t *testing.T, w *window) {
	w.do(t, chromedp.Navigate(w.site))
	value[bool](t, w, "localStorage.setItem('language', 'zh') || true")
	defer value[bool](t, w, "localStorage.removeItem('language') || true")
	for _, r := range routes {
		w.show(t, r.route, "运行")
		if lang := value[string](t, w, "document.documentElement.lang"); lang != "zh" {
			t.Errorf("%s is in %s", r.name, lang)
		}
	}
	w.show(t, "rollouts?run=gone", "没有运行 \"gone\"") // as the server says
	w.do(t, chromedp.Click(chromedp.CSS("header .tools button")))
	w.until(t, says(`there is no run "gone"`))
	w.do(t, chromedp.Click(chromedp.CSS("header .tools button")))
	w.until(t, says("没有运行"))
	w.mu.Lock()
	w.problems = nil // the console tells the status 404
	w.mu.Unlock()
}

func isDark(t *testing.T, w *window) {
	w.do(t, chromedp.Navigate(w.site))
	for _, r := range routes {
		w.showDark(t, r.route, r.text)
	}
}

// showDark opens a route in the dark.
func (w *window) showDark(t *testing.T, route, text string) {
	t.Helper()
	value[bool](t, w, "localStorage.setItem('theme', 'dark') || true")
	w.show(t, route, text)
	if colour := value[string](t, w, "getComputedStyle(document.body).backgroundColor"); colour != "rgb(18, 21, 24)" {
		t.Errorf("the background of %s is %s", route, colour)
	}
	value[bool](t, w, "localStorage.removeItem('theme') || true")
}

// followsSystem checks that canvases take the dark colours when the system turns dark.
func followsSystem(t *testing.T, w *window) {
	scheme := func(name string) {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
		w.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
			return err
		}))
	}
	defer scheme("light")
	const drawn = "Array.from(document.querySelectorAll('canvas'), (c) => c.toDataURL()).join()"
	for _, r := range routes {
		if !slices.Contains([]string{"curves", "tokens", "time"}, r.name) {
			continue
		}
		scheme("light")
		w.show(t, r.route, r.text)
		value[bool](t, w, "(async () => { do { light = "+drawn+"; await new Promise((wake) => setTimeout(wake, 200)); }"+
			" while (!light || light !== "+drawn+"); return true; })()") // until it rests
		scheme("dark")
		w.until(t, "light !== "+drawn)
	}
}

// showsText: what a model wrote is text, whatever it is.
func showsText(t *testing.T, w *window) {
	at := "run=" + url.QueryEscape(both) + "&step=10"
	w.show(t, "rollouts?"+at, "hostile")
	w.until(t, says("window.pwned"))
	ids := fmt.Sprintf("fetch('api/v1/runs/%s/steps/10/rollouts').then((r) => r.json())"+
		".then((r) => r.rollouts.filter((o) => o.task !== 'sums/1').map((o) => o.id))", url.PathEscape(both))
	shown := []string{"rollouts?" + at}
	for _, id := range value[[]string](t, w, ids) {
		shown = append(shown, "tokens?"+at+"&rollout="+url.QueryEscape(id))
	}
	shown = append(shown, "group?"+at+"&task=hostile&explore_step=10", "group?"+at+"&task=long&explore_step=10",
		"compare?run="+url.QueryEscape(both)+"&run=sums%2Flr1e-5_seed1&same=hostile", "time?run="+url.QueryEscape(both))
	for _, route := range shown {
		text := "window.pwned"
		if strings.Contains(route, "task=long") {
			text = "ten megabytes"
		}
		w.show(t, route, text)
		if strings.HasPrefix(route, "time") {
			w.do(t, chromedp.Click(chromedp.CSS(".time-tables button")))
			w.until(t, "document.querySelector('.panel.row')?.innerText.includes('window.pwned')")
		}
		if value[bool](t, w, "/[\\u001b\\u202e\\u2066]/.test(document.body.innerText)") {
			t.Errorf("%s shows characters that change others", route)
		}
	}
	if value[bool](t, w, "'pwned' in window || document.querySelector('main script, main img') !== null") {
		t.Error("what a model wrote became a part of the page")
	}
}

// saysWhatLacks: of runs that are gone or damaged the curves say so, and show the others.
func saysWhatLacks(t *testing.T, w *window) {
	w.show(t, "curves?run="+url.QueryEscape(both)+"&run=sums%2Fdamaged&run=sums%2Fnone", `there is no run "sums/none"`)
	w.until(t, says("Left out, because it cannot be read"))
	w.until(t, "document.querySelector('.u-over')")
	w.mu.Lock()
	w.problems = nil // the console tells the status 404
	w.mu.Unlock()
}

// waitsForAnswers: an answer comes, though it takes longer than the pause after which the page asks again.
func waitsForAnswers(t *testing.T, w *window) {
	w.show(t, "runs", both[5:])
	const loads = `(async () => {
		const { html, render } = await import("./vendor/preact.js"), { useData } = await import("./parts.js");
		let data, answer, n = 0, box = document.createElement("div");
		const pause = () => new Promise((wake) => setTimeout(wake, 50));
		const until = async (holds) => { while (!holds()) await pause(); };
		const Slow = () => { data = useData(() => { n++; return new Promise((end) => { answer ??= end; }); }, []); return data.value; };
		render(html` + "`<${Slow} />`" + `, box);
		await until(() => answer);
		data.again();
		await pause();
		answer("came");
		await until(() => box.textContent || n > 1);
		return box.textContent + " " + n;
	})()`
	if got := value[string](t, w, loads); got != "came 1" {
		t.Errorf("the page shows %q", got)
	}
}

// tellsUpdates: a tab that was opened before the program became another one offers to load the page anew.
func tellsUpdates(t *testing.T, w *window, root string) {
	var about atomic.Value
	about.Store("")
	old := (&studio.Server{Dir: root, Version: "v1"}).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := about.Load().(string); text != "" && r.URL.Path == "/api/v1/about" {
			fmt.Fprint(w, text)
		} else {
			old.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	other := &window{ctx: w.ctx, site: server.URL}
	const banner = "document.dispatchEvent(new Event('visibilitychange')) && document.querySelector('.banner[role=alert]')"
	for _, reply := range []string{`{"version": "v2", "page": "%s"}`, `{"version": "v1", "page": "other"}`} {
		about.Store("")
		other.show(t, "runs", both[5:])
		now := value[string](t, other, "fetch('api/v1/about').then((r) => r.json()).then((a) => a.page)")
		if value[bool](t, other, "!!("+banner+")") {
			t.Error("the page tells an update that there is not")
		}
		about.Store(strings.Replace(reply, "%s", now, 1))
		other.until(t, banner)
	}
	other.do(t, chromedp.Click(chromedp.CSS(".banner button")))
	other.until(t, says(both[5:])+"&& !document.querySelector('.banner')")
	other.do(t, chromedp.Navigate("about:blank"))
	w.mu.Lock()
	w.problems = nil // the other server's requests
	w.mu.Unlock()
}

// asksForToken: the page takes the token of its address, which does not stay there, and asks for it otherwise.
func asksForToken(t *testing.T, w *window, root string) {
	server := httptest.NewServer((&studio.Server{Dir: root, Token: "0123456789abcdef", Version: "v1"}).Handler())
	t.Cleanup(server.Close)
	other := &window{ctx: w.ctx, site: server.URL}
	other.show(t, "runs", "needs its token")
	if value[bool](t, other, says(both[5:])) {
		t.Error("the page shows runs without the token")
	}
	address := chromedp.Navigate(server.URL + "/#token=0123456789abcdef")
	for _, isNew := range []bool{false, true} { // a tab that has the page already, and another one
		if isNew {
			other.do(t, chromedp.Navigate("about:blank"))
		}
		other.do(t, address)
		other.until(t, says(both[5:]))
		if hash := value[string](t, other, "location.hash"); hash != "#/runs" {
			t.Errorf("the address still has %s", hash)
		}
		value[bool](t, other, "(sessionStorage.clear(), true)")
	}
	other.do(t, chromedp.Navigate("about:blank"))
	w.mu.Lock()
	w.problems = nil // the other server's requests, and its refusals
	w.mu.Unlock()
}

// keep writes a picture of the page for the documents.
func (w *window) keep(t *testing.T, name string) {
	t.Helper()
	kept := []string{"runs", "curves", "compare", "rollouts", "group", "tokens", "config", "data", "talk"}
	if !*update || !slices.Contains(kept, name) {
		return
	}
	time.Sleep(500 * time.Millisecond) // animations
	ctx, end := context.WithTimeout(w.ctx, patience)
	defer end()
	taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	small, err := palettePNG(taken)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "guide", "studio", name+".png"), small, 0o644); err != nil {
		t.Fatal(err)
	}
}
