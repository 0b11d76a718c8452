package studio_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
	_ "github.com/trinity-go/trinity/standard"
	"github.com/trinity-go/trinity/trinitytest"
)

const training = `project: sums
name: small # the comment stays
mode: train
model: {model_path: m, max_model_len: 64}
algorithm: {algorithm_type: sft}
buffer:
  train_batch_size: 4
  total_steps: 2
  trainer_input:
    experience_buffer: {storage_type: file, path: d.jsonl, format: {prompt_type: plaintext, prompt_key: q, response_key: a}}
`

// write puts a text into the editor as somebody who pastes it.
func (w *window) write(t *testing.T, text string) {
	t.Helper()
	value[bool](t, w, fmt.Sprintf("(() => { const a = document.querySelector('.editor textarea'); a.focus(); a.select();"+
		" return document.execCommand('insertText', false, %q); })()", text))
}

// A configuration is written, checked and started in a real browser.
func TestConfigInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no sh")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := record(t, root, "sums/old", "seed: 7\nbuffer: {total_steps: 9}\n")
	run.step(1, .1)
	run.end(monitor.Stopped, "")
	long := "sums/" + strings.Repeat("a_long_name_", 10)
	other := record(t, root, long, "seed: 3\ngroup: "+strings.Repeat("long/", 30)+"\n")
	other.step(1, .1)
	other.end(monitor.Stopped, "")
	server := httptest.NewServer((&studio.Server{
		Dir: root, Version: "v1", Every: 10 * time.Millisecond, Control: "secret",
		Absent: func(cfg *config.Config) error {
			if cfg.Model.ModelPath == "gone" {
				return cfg.At("model.model_path", "gone: no such file or directory", "")
			}
			return nil
		},
		Program:   []string{"/bin/sh", "-c", `printf 'runs %s\n' "$@"; printf '%b\n' "$0"`, script + `\033[31mred` + marks},
		Plan:      func(cfg *config.Config) (*config.Plan, error) { return cfg.Plan(config.Facts{}) },
		Templates: []studio.Template{{Name: "sft", Doc: "learns answers", Text: training}},
	}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#token=secret"))
	w.until(t, says("old"))
	w.show(t, "config", "No mistakes found.")

	w.write(t, training[:len(training)-1]+"\nmonitor: {monitor_typ: [console]}\n")
	w.until(t, "document.querySelector('.mark[data-line=\"11\"] u')?.textContent === 'monitor_typ'")
	w.until(t, says("line 11")+"&& document.querySelector('button.primary').disabled")
	w.do(t, chromedp.Click(chromedp.CSS("header .tools button")))
	w.until(t, says("第 11 行")+"&&"+says("未知的键；是否指 \"monitor_type\"？"))
	w.do(t, chromedp.Click(chromedp.CSS("header .tools button")))
	w.until(t, says("line 11"))
	w.keep(t, "config")
	w.do(t, chromedp.Click(chromedp.CSS(".problems button")))
	w.until(t, "document.activeElement.tagName === 'TEXTAREA'")

	w.write(t, "mode: train\nalgo")
	w.do(t, chromedp.KeyEvent("r"))
	w.until(t, "document.querySelector('.proposals li b')?.textContent === 'algorithm'")
	w.do(t, chromedp.KeyEvent("\t"))
	const enter = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true})" // KeyEvent would write a line itself
	value[bool](t, w, "document.activeElement.dispatchEvent("+enter+") || true")
	w.do(t, chromedp.KeyEvent("o"))
	w.until(t, "document.querySelector('.proposals li b')?.textContent === 'optimizer'")
	w.do(t, chromedp.KeyEvent("\x1b"))
	if text := value[string](t, w, "document.querySelector('.editor textarea').value"); text != "mode: train\nalgorithm:\n  o" {
		t.Errorf("the editor has %q", text)
	}

	w.write(t, "algorithm:\n  advantage_fn: opmd\n  advantage_fn_args:\n    tau: 2\n    opmd_baseline: lo")
	w.do(t, chromedp.KeyEvent("g"))
	w.until(t, "document.querySelector('.proposals li b')?.textContent === 'logavgexp'")
	w.do(t, chromedp.KeyEvent("\x1b"))
	w.until(t, "[...document.querySelectorAll('.fields label')].some((l) => l.innerText.trim() === 'tau' && l.title.endsWith('more than 0'))")

	w.write(t, training)
	w.until(t, says("No mistakes found."))
	const plan = "(document.querySelector('details.plan')?.innerText || '')"
	w.do(t, chromedp.Click(chromedp.CSS("button[title=Ctrl-Enter]")))
	w.until(t, plan+".includes('plan: mode train') && !"+plan+".includes('has changed since')")
	value[bool](t, w, "(() => { const i = [...document.querySelectorAll('.fields label')].find((l) => l.innerText.includes('Seed'))"+
		".querySelector('input'); i.value = '5'; return i.dispatchEvent(new Event('change', {bubbles: true})); })()")
	w.until(t, "document.querySelector('.editor textarea').value.endsWith('\\nseed: 5\\n')")
	w.until(t, says("No mistakes found.")+`&& document.querySelector('aside select option[value="sums/old"]')`)
	value[bool](t, w, "(() => { const s = document.querySelector('aside select'); s.value = 'sums/old';"+
		" return s.dispatchEvent(new Event('change', {bubbles: true})); })()")
	for _, row := range []string{"buffer.total_steps 9 2", "seed 7 5"} {
		w.until(t, fmt.Sprintf("[...document.querySelectorAll('aside tbody tr')].some((r) => r.innerText.replace(/\\s+/g, ' ') === %q)", row))
	}
	w.until(t, plan+".includes('plan: mode train') && "+plan+".includes('has changed since')")

	value[bool](t, w, fmt.Sprintf("(() => { const s = document.querySelector('aside select'); s.value = %q;"+
		" return s.dispatchEvent(new Event('change', {bubbles: true})); })()", long))
	w.until(t, "[...document.querySelectorAll('aside tbody tr')].some((r) => r.innerText.includes('long/long/'))")
	if tooWide := value[string](t, w, "[...document.querySelectorAll('aside *')].filter((e) => e.getBoundingClientRect().right >"+
		" document.querySelector('aside').getBoundingClientRect().right + 1).map((e) => e.outerHTML.slice(0, 99)).join('\\n')"); tooWide != "" {
		t.Errorf("the difference to a run is wider than its column: %s", tooWide)
	}
	w.write(t, strings.Replace(training, "model_path: m", "model_path: gone", 1))
	w.until(t, "document.querySelector('.mark[data-line=\"4\"]') && "+says("gone: no such file or directory"))
	if value[bool](t, w, says("No mistakes found.")+"|| !document.querySelector('button.primary').disabled") {
		t.Error("a run starts whose model is not there")
	}
	w.write(t, training+"seed: 5\n")
	w.until(t, says("No mistakes found.")+"&& !document.querySelector('button.primary').disabled")
	w.do(t, chromedp.EmulateViewport(400, 700))
	w.isNarrow(t, "config")
	w.do(t, chromedp.EmulateViewport(1100, 640), chromedp.Click(chromedp.CSS("button.primary")))
	w.until(t, "location.hash === '#/log?run=sums%2Fsmall'")
	w.until(t, says("runs "+filepath.Join(root, ".studio", "sums", "small", "config.yaml")))
	w.until(t, says("window.pwned")+"&&"+says("␛[31mred"))
	if value[bool](t, w, "'pwned' in window || document.querySelector('main script, main img') !== null"+
		" || /[\\u001b\\u202e]/.test(document.body.innerText)") {
		t.Error("what a run printed became a part of the page")
	}
	w.do(t, chromedp.EmulateViewport(400, 700))
	w.isNarrow(t, "log")
	w.do(t, chromedp.EmulateViewport(1100, 640))
	w.noProblems(t)

	w.show(t, "config?run=sums%2Fold", "From sums/old, under the new name old_2")
	w.until(t, "document.querySelector('.editor textarea').value.includes('name: old_2')")
	w.write(t, "name: own\n")
	w.until(t, says("under the new name own")) // it is kept once it is drawn
	w.do(t, chromedp.Click(chromedp.CSS(".row a[href='#/config']")))
	w.until(t, "document.querySelector('.editor textarea').value.includes('name: small')") // what was written without a run is there
	w.show(t, "config?run=sums%2Fold", "From sums/old, under the new name own")
	w.show(t, "log?run=sums%2Fold", "did not start this run")
	w.show(t, "runs", "old")
	w.do(t, chromedp.Click(chromedp.CSS(".menu-button")))
	w.until(t, says("Clone"))
	value[bool](t, w, "localStorage.setItem('language', 'zh') || true")
	w.showDark(t, "config", "常改的键")
	w.showDark(t, "log?run=sums%2Fold", "克隆")
	w.noProblems(t)
}
