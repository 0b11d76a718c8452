package studio_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

// comparesAtOnce: the page says at once which of twelve runs is best and by how much, and the table of single runs begins with
// that run. A table with grouped seeds says that its rows are means. A plot has the width of its card.
func comparesAtOnce(t *testing.T, w *window, pages []drawn) {
	route := map[string]drawn{}
	for _, page := range pages {
		route[page.name] = page
	}
	w.open(t, route["compare-alone"])
	said := strings.ReplaceAll(value[string](t, w, "document.querySelector('.weights').innerText"), "\n", " ")
	for _, want := range []string{
		"Best single run at any step: maxrl · lr 2e-4 · seed 1 · " + evaluation + " is 0.81 at step 60", "Next: maxrl · lr 2e-4 · seed 0 · ",
		"−0.01 ± 0.0", "within chance (over 200 held-out rows that both answered)", "global_step_60",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the panel lacks %q: %s", want, said)
		}
	}
	const first = "document.querySelector('.ranked tbody tr').innerText"
	if row := value[string](t, w, first); !strings.Contains(row, "maxrl · lr 2e-4 · seed 1") || !strings.Contains(row, "0.81") {
		t.Errorf("the first row is %q", row)
	}
	last := value[string](t, w, "document.querySelector('.ranked tbody tr:last-child').innerText")
	if !strings.Contains(last, "beyond chance") {
		t.Errorf("the last row is %q", last)
	}
	value[bool](t, w, "document.querySelector('.compare .row input[type=checkbox]').click() || true")
	w.until(t, "document.querySelectorAll('.ranked tbody tr').length === 6")
	w.until(t, says("A row is the mean of the runs that differ in their seeds alone"))
	w.until(t, first+".includes('maxrl · lr 2e-4 (2)')")
	w.until(t, says("−0.06 ± 0.03"))
	w.open(t, drawn{"", "compare?run=" + url.QueryEscape("laptop/sums_algorithm_type_grpo_lr_1e-5_seed0"),
		"document.querySelectorAll('.others li').length === 11 && " + says("Compare 12 runs of its sweep")})
	for _, width := range []int64{1440, 400} { // names and cards of the same task keep apart
		w.do(t, chromedp.EmulateViewport(width, 900))
		w.open(t, route["same-task-all"])
		value[bool](t, w, "(document.querySelector('.beside').scrollIntoView(), true)")
		w.picture(t, fmt.Sprint("beside-", width))
		for _, wrong := range value[[]string](t, w, `[...document.querySelectorAll(".beside .column")].flatMap((c, i, all) => {
			const box = c.getBoundingClientRect(), out = [];
			if (i && all[i - 1].getBoundingClientRect().right + 8 > box.left) out.push("columns touch");
			for (const e of c.querySelectorAll("*")) if (e.getBoundingClientRect().right > box.right + 1) out.push("wider: " + e.innerText);
			return out;
		})`) {
			t.Errorf("%d pixels: %s", width, wrong)
		}
	}
	w.do(t, chromedp.EmulateViewport(1100, 640))
	w.open(t, route["curves-groups"])
	names := value[[]string](t, w, "[...document.querySelectorAll('.side .chosen label span')].map((e) => e.innerText)")
	if slices.Sort(names); len(slices.Compact(names)) != 12 || names[0] != "grpo · lr 1e-5 · seed 0" {
		t.Errorf("the list has the names %q", names)
	}
	const apart = "[...document.querySelectorAll('.plot')].every((e) => Math.abs(e.clientWidth - e.querySelector('.uplot').clientWidth) < 2)"
	for _, width := range []int64{700, 1440, 1100} {
		w.do(t, chromedp.EmulateViewport(width, 640))
		w.until(t, apart)
	}
}

// A step that is worse than the start is called the best of nothing, and one seed without common rows tells nothing.
func TestCompareInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	root := t.TempDir()
	for i, lr := range []string{"1e-3", "1e-2"} {
		r := record(t, root, "worse/lr"+lr, fmt.Sprintf("seed: 1\nalgorithm: {optimizer: {lr: %s}}\n", lr))
		r.evaluated(0, .77)
		for n := 1; n <= 20; n++ {
			r.step(n, .5)
		}
		r.evaluated(10, .49-.1*float64(i))
		r.evaluated(20, .2)
		r.checkpoint(10)
		r.end(monitor.Finished, "")
	}
	server := httptest.NewServer((&studio.Server{Dir: root, Version: "v1"}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	for _, width := range []int64{1440, 400} {
		w.do(t, chromedp.EmulateViewport(width, 900))
		w.open(t, drawn{"", "compare?run=worse%2Flr1e-3&run=worse%2Flr1e-2",
			"document.querySelector('.ranked') && document.querySelector('.weights code')"})
		w.picture(t, fmt.Sprint("worse-", width))
		panel := strings.ReplaceAll(value[string](t, w, "document.querySelector('.weights').innerText"), "\n", " ")
		for _, want := range []string{
			"No run is better than the model they began with: " + evaluation + " was 0.77.", "The model at the start: models/tiny",
			"lr1e-3 · best checkpoint 0.49, of step 10", "global_step_10",
		} {
			if !strings.Contains(panel, want) {
				t.Errorf("the panel lacks %q: %s", want, panel)
			}
		}
		if table := value[string](t, w, "document.querySelector('.ranked').innerText"); !strings.Contains(table, "one seed: cannot tell") {
			t.Errorf("the table says %q", table)
		}
	}
	w.open(t, drawn{"", "curves?run=worse%2Flr1e-2", says("No step is better than the model it began with")})
	w.noProblems(t)
}
