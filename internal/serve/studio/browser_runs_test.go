package studio_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

// judged records a run of a sweep with evaluations at steps 0, 1 and so on, and says a line if it is not empty.
func judged(t *testing.T, root, sweep, id, settings, line string, values ...float64) {
	t.Helper()
	r := record(t, root, id, settings)
	mark, err := json.Marshal(rundir.Sweep{Name: sweep, Varied: []string{"seed"}})
	if err == nil {
		err = durable.WriteFile(filepath.Join(r.dir, rundir.SweepFile), mark)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, rundir.Traces), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, v := range values {
		if n > 0 {
			r.step(n, .1)
		}
		r.evaluated(n, v)
	}
	if line != "" {
		r.said(line)
	}
	r.end(monitor.Finished, "")
}

// The table of runs says which run of a sweep is the best, and does not praise what is worse than the start.
func TestRunsInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	root := t.TempDir()
	const fell = "WARNING: explorer step %d: " + evaluation + " is %g and was 0.77 in the first evaluation. Lower the learning rate"
	const two = "buffer: {explorer_input: {eval_tasksets: [{name: held_out, path: a.jsonl}, {name: hard, path: b.jsonl}]}}\n"
	const rloo = "algorithm: {algorithm_type: grpo, advantage_fn: rloo}\n"
	for seed, best := range []float64{.41, .49, .45} {
		judged(t, root, "worse", fmt.Sprintf("p/worse_seed%d", seed), fmt.Sprintf("seed: %d\n", seed)+rloo,
			fmt.Sprintf(fell, seed+1, best), .77, .3, best)
	}
	for seed, best := range []float64{.8, .91, .77} {
		line := ""
		if seed > 0 {
			line = fmt.Sprintf(fell, 2, .5)
		}
		judged(t, root, "better", fmt.Sprintf("p/better_seed%d", seed), fmt.Sprintf("seed: %d\n", seed)+two, line, .77, best, .5)
	}
	record(t, root, "a_project_with_a_long_name/a_run_with_a_name_that_is_longer_than_a_telephone_is_wide", "").end(monitor.Stopped, "")
	server := httptest.NewServer((&studio.Server{Dir: root, Version: "v1"}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	const text = "[...document.querySelectorAll('tbody tr')].map((r) => r.innerText.replace(/\\s+/g, ' '))"
	row := func(i int, words string) string { return fmt.Sprintf("%s[%d]?.includes(%q)", text, i, words) }
	w.do(t, chromedp.EmulateViewport(1440, 900))
	w.show(t, "runs?open=sweep:p%2Fworse&open=sweep:p%2Fbetter", "better")
	at := 0
	if value[bool](t, w, row(0, "worse")) {
		at = 4 // the newest sweep is the first
	}
	better, worse := at, 4-at
	for i, words := range []string{"0.77 → 0.91 step 1", "seed 1", "seed 0", "seed 2"} {
		w.until(t, row(better+i, words))
	}
	for i, words := range []string{"0.77 → 0.49 none better than the start", "seed 1", "seed 2", "seed 0"} {
		w.until(t, row(worse+i, words))
	}
	w.until(t, row(better, "of held_out")+"&& !"+row(worse, "of held_out"))
	w.until(t, row(worse+1, "grpo · advantage rloo")+"&& !"+row(better+1, "rloo"))
	w.until(t, row(worse, "⚠ 1")+"&&"+row(better, "⚠ 1"))
	const praised = "[...document.querySelectorAll('tbody b')].map((b) => b.innerText).filter((s) => s.startsWith('0'))"
	if bold := value[[]string](t, w, praised); len(bold) != 3 {
		t.Errorf("%q are bold, want the evaluations that are better than at the start", bold)
	}
	w.do(t, chromedp.Click(chromedp.CSS("tr.below .menu-button")))
	w.until(t, "['answers', 'data', 'curves'].every((page) => [...document.querySelectorAll('.menu-list a')]"+
		".some((a) => a.hash.startsWith('#/' + page)))")
	w.do(t, chromedp.EmulateViewport(400, 800))
	w.show(t, "runs?open=sweep:p%2Fworse&sort=-best", "worse")
	for _, words := range []string{"0.77 → 0.49", "none better than the start", "⚠ 1", "0.77 → 0.91"} {
		w.until(t, says(words)) // of what is seen
	}
	w.isNarrow(t, "runs")
	const beyond = "(() => { const t = document.querySelector('.table'); return t.scrollWidth - t.clientWidth; })()"
	if cut := value[float64](t, w, beyond); cut > 0 {
		t.Errorf("the table is cut by %v pixels", cut)
	}

	w.do(t, chromedp.EmulateViewport(1440, 900))
	w.show(t, "curves?run=p%2Fworse_seed0&run=p%2Fworse_seed1&run=p%2Fbetter_seed1", "1 warning")
	w.do(t, chromedp.Click(chromedp.CSS(".warnings > summary")))
	w.until(t, says("3 runs, as"))
	w.do(t, chromedp.Click(chromedp.CSS(".warnings li summary")))
	w.until(t, "document.querySelectorAll('.warnings li li').length === 3 && "+says("is 0.41 and was 0.77")+"&&"+says("is 0.5 and was"))
	w.noProblems(t)
}
