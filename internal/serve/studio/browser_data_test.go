package studio_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/annotate"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

// demonstrations writes rows. One is damaged, one has HTML and control characters, which must stay text, and
// one has ten megabytes.
func demonstrations(t *testing.T, path string) {
	t.Helper()
	var text strings.Builder
	row := func(question, answer string) {
		line, err := json.Marshal(map[string]string{"q": question, "a": answer})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	for n := range 200 {
		a, b := n%7+n/2, 100-n/3
		row(fmt.Sprintf("%d+%d=?", a, b), fmt.Sprintf("<think>%s</think><answer>%d</answer>", strings.Repeat("1+1=2,", n%9), a+b))
		if n == 2 {
			text.WriteString("{\"q\": \"half a row\n")
			row(script+escape+marks, "hostile "+script)
		}
	}
	row("ten megabytes", strings.Repeat("in a line ", 1<<20))
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The data of a run in a real browser: rows, tokens, lengths that filter, a search.
func TestDataInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	root := t.TempDir()
	run := record(t, root, "sums/sft", "")
	if err := durable.WriteFile(filepath.Join(run.dir, "monitor", rundir.SettingsFile), []byte(training)); err != nil {
		t.Fatal(err)
	}
	run.step(1, .1)
	run.end(monitor.Finished, "")
	data := filepath.Join(root, "sums.jsonl")
	demonstrations(t, data)
	server := httptest.NewServer((&studio.Server{Dir: root, Version: "v1", Data: studio.Data{
		Sources: func(*config.Settled, string) []dataset.Entry {
			format := dataset.Format{TaskFormat: trinity.TaskFormat{PromptKey: "q", ResponseKey: "a"}, PromptType: "plaintext"}
			return []dataset.Entry{
				{Key: "buffer.trainer_input.experience_buffer", Name: "sums", Kind: "sft", Path: data, Format: format},
				{Key: "gone", Name: "gone" + marks, Kind: "tasks", Path: "gone.jsonl", Problem: "there is no such file " + script},
			}
		},
		Text: func(*config.Settled) (*renderer.Renderer, error) {
			return renderer.Open("../../../examples/quickstart/model", renderer.Options{})
		},
	}}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	const route = "data?run=sums%2Fsft"
	for _, test := range []struct {
		name string
		run  func(*testing.T, *window)
	}{
		{"rows", func(t *testing.T, w *window) {
			w.show(t, route, "Lengths of the first 203 rows; 2 of them are damaged")
			w.until(t, says("not JSON"))
			w.do(t, chromedp.Click(chromedp.CSS(".table tbody tr:first-child button")))
			w.until(t, "document.querySelectorAll('.data-row .lines span').length > 10")
			w.until(t, "document.querySelectorAll('.data-row .lines span.masked').length > 5")
			w.do(t, chromedp.EmulateViewport(1100, 1000))
			value[bool](t, w, fmt.Sprintf("(() => { for (const e of document.querySelectorAll('option, h2'))"+ // no picture names a machine
				" e.textContent = e.textContent.replaceAll(%q, 'data/sums.jsonl');"+
				" document.getElementById('main').scrollTop = 0; return true; })()", data))
			w.keep(t, "data")
			w.do(t, chromedp.EmulateViewport(1100, 640))
			w.do(t, chromedp.Click(chromedp.CSS(".data-row .row button")))
			w.until(t, "!document.querySelector('.data-row')")
		}},
		{"keyboard", func(t *testing.T, w *window) {
			w.show(t, route, "Lengths of the first")
			w.until(t, "document.querySelector('.table tbody tr')")
			value[bool](t, w, "document.querySelector('.table').focus() || true")
			w.do(t, chromedp.KeyEvent("\r"))
			w.until(t, "location.hash.includes('row=0.0.1')")
			w.do(t, chromedp.KeyEvent("]"))
			w.until(t, "location.hash.includes('at=0.')")
			w.until(t, "!document.body.innerText.includes('sums.jsonl:1\\n') && document.querySelector('.table tbody tr')")
			w.do(t, chromedp.KeyEvent("["))
			w.until(t, "!location.hash.includes('at=0.')")
		}},
		{"lengths", func(t *testing.T, w *window) {
			w.show(t, route, "Lengths of the first 203 rows")
			w.do(t, chromedp.Click(chromedp.CSS(".histogram:nth-child(1) button:not(:disabled)")))
			w.until(t, "location.hash.includes('prompt=')")
			w.until(t, says("rows searched")+"&&!"+says("not JSON"))
		}},
		{"typed", func(t *testing.T, w *window) { // what comes while the page searches stays
			w.show(t, route, "Lengths of the first")
			const typed = `(async () => {
				const field = document.querySelector("input[type=search]");
				const type = (text) => { field.value = text; field.dispatchEvent(new Event("input", {bubbles: true})); };
				const searches = new Promise((end) => addEventListener("hashchange", () => { type("hostil"); end(); }, {once: true}));
				type("ho");
				await searches;
				await new Promise((wake) => setTimeout(wake, 100));
				return field.value;
			})()`
			if text := value[string](t, w, typed); text != "hostil" {
				t.Errorf("the field has %q", text)
			}
		}},
		{"search", func(t *testing.T, w *window) {
			w.show(t, route, "Lengths of the first")
			w.do(t, chromedp.Click(chromedp.CSS("input[type=search]")), chromedp.KeyEvent("hostile"))
			w.until(t, "location.hash.includes('q=hostile')")
			w.until(t, "document.querySelectorAll('.table tbody tr').length === 1")
			w.do(t, chromedp.Click(chromedp.CSS(".table tbody tr:first-child button")))
			w.until(t, "[...document.querySelectorAll('.data-row .lines .line')].some((l) => l.innerText.includes('window.pwned'))")
			if value[bool](t, w, "/[\\u001b\\u202e\\u2066]/.test(document.body.innerText)") {
				t.Error("the page shows characters that change others")
			}
		}},
		{"long", func(t *testing.T, w *window) {
			w.show(t, route+"&q=ten%20megabytes", "rows searched")
			w.show(t, route+"&at=0.0.1", "Lengths of the first 203 rows")
			long := value[string](t, w, "fetch('api/v1/data/rows?run=sums%2Fsft&source=buffer.trainer_input.experience_buffer&n=100"+
				"').then((r) => r.json()).then((a) => fetch('api/v1/data/rows?run=sums%2Fsft&source=buffer.trainer_input.experience_buffer&n=100"+
				"&at=' + a.next)).then((r) => r.json()).then((a) => fetch('api/v1/data/rows?run=sums%2Fsft"+
				"&source=buffer.trainer_input.experience_buffer&at=' + a.next)).then((r) => r.json()).then((a) => a.rows.at(-1).at)")
			w.show(t, route+"&row="+long, "it is shown as it is in the file")
		}},
		{"problem", func(t *testing.T, w *window) { w.show(t, route+"&source=gone", "there is no such file <script>") }},
		{"narrow", func(t *testing.T, w *window) {
			w.do(t, chromedp.EmulateViewport(400, 700))
			defer w.do(t, chromedp.EmulateViewport(1100, 640))
			w.show(t, route+"&row=0.0.1", "As it is in the file")
			w.isNarrow(t, "data")
		}},
		{"axe", func(t *testing.T, w *window) {
			w.show(t, route+"&row=0.0.1", "As it is in the file")
			w.until(t, "document.querySelector('.table tbody tr') && document.querySelectorAll('.data-row .lines span').length > 10")
			w.hasNoBarriers(t, axeCore(t), "data")
		}},
		{"chinese", func(t *testing.T, w *window) {
			value[bool](t, w, "localStorage.setItem('language', 'zh') || true")
			defer value[bool](t, w, "localStorage.removeItem('language') || true")
			w.show(t, route, "提示的长度")
		}},
		{"dark", func(t *testing.T, w *window) {
			value[bool](t, w, "localStorage.setItem('theme', 'dark') || true")
			defer value[bool](t, w, "localStorage.removeItem('theme') || true")
			w.show(t, route+"&row=0.0.1", "As it is in the file")
			colour := value[string](t, w, "getComputedStyle(document.querySelector('.data-row')).backgroundColor")
			if strings.Contains(colour, "255") {
				t.Errorf("the row is %s", colour)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, w)
			w.noProblems(t)
			if value[bool](t, w, "'pwned' in window || document.querySelector('main script, main img') !== null") {
				t.Error("what a file says became a part of the page")
			}
		})
	}
}

// People compare answers on the page that the studio opens for the experiences of a run.
func TestAnnotateInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	root := t.TempDir()
	run := record(t, root, "sums/sft", "")
	if err := durable.WriteFile(filepath.Join(run.dir, "monitor", rundir.SettingsFile), []byte(training)); err != nil {
		t.Fatal(err)
	}
	run.end(monitor.Finished, "")
	kept := filepath.Join(root, "kept.jsonl")
	var text strings.Builder
	for i, response := range []string{"first " + script, "second " + escape} {
		line, err := json.Marshal(map[string]any{
			"id": map[string]any{"step": 1, "task": "t", "run": i}, "tokens": []int{1, 2}, "mask": []bool{false, true}, "prompt_len": 1,
			"prompt": "which?", "response": response,
		})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(kept, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	site := &studio.Server{Dir: root, Version: "v1", Control: "secret", Annotator: annotate.Shelf{Most: 1 << 20}, Data: studio.Data{
		Sources: func(*config.Settled, string) []dataset.Entry {
			return []dataset.Entry{{Key: "kept", Name: "kept", Kind: "experience", Path: kept}}
		},
		Text: func(*config.Settled) (*renderer.Renderer, error) { return nil, fmt.Errorf("no model") },
	}}
	server := httptest.NewServer(site.Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#token=secret"))
	w.until(t, says("sft"))
	if value[bool](t, w, says("Annotate")) {
		t.Error("the navigation has a page of questions that nobody asks")
	}
	w.do(t, chromedp.Navigate(server.URL+"/#/data?run=sums%2Fsft"))
	w.until(t, "[...document.querySelectorAll('button')].some((b) => b.innerText === 'Annotate')")
	value[bool](t, w, "[...document.querySelectorAll('button')].find((b) => b.innerText === 'Annotate').click() || true")
	w.until(t, "location.pathname.startsWith('/annotate/') && document.getElementById('who')")
	w.do(t, chromedp.EmulateViewport(400, 700), chromedp.Click(chromedp.CSS("#who")), chromedp.KeyEvent("ann\r"))
	w.until(t, says("0 of 1 pairs done")+"&&"+says("window.pwned"))
	if width := value[float64](t, w, "document.documentElement.scrollWidth"); width > 400 {
		t.Errorf("the page is %v pixels wide", width)
	}
	t.Run("axe", func(t *testing.T) { w.hasNoBarriers(t, axeCore(t), "pairs") })
	value[bool](t, w, "localStorage.setItem('language', 'zh') || localStorage.setItem('theme', 'dark') || true")
	w.do(t, chromedp.Reload())
	w.until(t, "document.querySelector('[data-key=\"=\"]')?.innerText === '= 一样好' && document.body.innerText.includes('0 / 1')")
	if colour := value[string](t, w, "getComputedStyle(document.documentElement).colorScheme"); colour != "dark" {
		t.Errorf("the colours are %s", colour)
	}
	w.do(t, chromedp.EmulateViewport(1100, 640), chromedp.Click(chromedp.CSS("[data-key=ArrowLeft]")))
	w.until(t, says("全部完成"))
	value[bool](t, w, "localStorage.clear() || true")
	w.do(t, chromedp.Navigate(server.URL+"/#/annotate"))
	w.until(t, says("Compare answers")+"&& document.querySelector('nav a[aria-current=page]')?.innerText === 'Annotate'")
	t.Run("axe", func(t *testing.T) { w.hasNoBarriers(t, axeCore(t), "annotate") })
	w.noProblems(t)
	if value[bool](t, w, "'pwned' in window") {
		t.Error("an answer became a part of the page")
	}
	if err := site.Close(); err != nil {
		t.Fatal(err)
	}
}
