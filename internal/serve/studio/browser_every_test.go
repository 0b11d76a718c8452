package studio_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

const evaluation = "eval/held_out/accuracy/mean@1"

// evaluated records an evaluation.
func (r *recorder) evaluated(n int, value float64) {
	r.t.Helper()
	at := began.Add(time.Duration(n)*10*time.Second + 2*time.Second)
	r.log(trinity.Record{Step: int64(n), Role: trinity.RoleExplorer, Time: at, Metrics: trinity.Metrics{evaluation: value}})
}

// sweepRuns records twelve runs as trinity sweep makes them, and returns their IDs.
func sweepRuns(t *testing.T, root string) (ids []string) {
	t.Helper()
	mark, err := json.Marshal(rundir.Sweep{Name: "sums", Varied: []string{"algorithm.algorithm_type", "algorithm.optimizer.lr", "seed"}})
	if err != nil {
		t.Fatal(err)
	}
	for a, algorithm := range []string{"grpo", "maxrl"} {
		for l, lr := range []string{"1e-5", "5e-5", "2e-4"} {
			for seed := range 2 {
				id := fmt.Sprintf("laptop/sums_algorithm_type_%s_lr_%s_seed%d", algorithm, lr, seed)
				r := record(t, root, id, fmt.Sprintf("seed: %d\nalgorithm: {algorithm_type: %s, optimizer: {lr: %s}}\n"+
					"buffer: {explorer_input: {eval_tasksets: [{name: held_out}, {name: prices}]}}\n", seed, algorithm, lr))
				if err := durable.WriteFile(filepath.Join(r.dir, rundir.SweepFile), mark); err != nil {
					t.Fatal(err)
				}
				most := .55 + .06*float64(a) + .1*float64(l)
				for n := 1; n <= 60; n++ {
					r.step(n, most*learnt(n, seed+2*l))
					if n%10 == 0 {
						r.evaluated(n, math.Round(200*(.3+(most-.3)*(1-math.Exp(-float64(n)/15))+.01*float64(seed)))/200)
					}
				}
				right := int(math.Round(200 * (.3 + (most-.3)*(1-math.Exp(-4)) + .01*float64(seed))))
				if len(ids) < 2 {
					r.traced(20, 60)
					r.answered(seed, right, 20, 60)
				} else {
					r.held(60, right)
				}
				if seed == 1 {
					r.best(rundir.Evaluations{Metric: evaluation, All: []rundir.Evaluation{{Version: 60, Value: .5}}})
					r.checkpoint(60)
				}
				if lr == "1e-5" {
					r.said("WARNING: explorer step 20: " + evaluation + " is 0.2 and was 0.5 in the first evaluation, which is more than chance " +
						"explains with 200 rows. Keep the best checkpoint (trainer.keep_best), or lower the learning rate")
				}
				r.end(monitor.Finished, "")
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// held records what a run answered to 200 held-out rows at a step, of which so many are right, and its rollouts of a task.
func (r *recorder) held(step, right int) {
	r.t.Helper()
	texts := []string{"What is ", "3 + 4?", " ", "", "The answer is ", "7", "8"}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(r.dir, rundir.Traces), Text: func(token int32) string { return texts[token] },
		Say: func(line string) { r.t.Error(line) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []trinity.TrainedExperience
	for run := range 4 {
		all = append(all, rollout(step, "sums/1", run, texts, []int32{0, 1, 2, 3, 4, int32(5 + run%2)}))
	}
	w.Trained(trinity.Trained{Step: int64(step), Experiences: all})
	r.written(step)
	w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: int64(step), Rows: sums(int64(step), 0, right)})
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// sums are the answers to the held-out rows from one on, of which the first are right.
func sums(step int64, from, right int) (rows []trace.Evaluated) {
	for row := from; row < 200; row++ {
		repeat, reward := int64(0), 0.0
		if row < from+right {
			reward = 1
		}
		rows = append(rows, trace.Evaluated{Taskset: "held_out", Row: int64(row), Run: &repeat, Prompt: fmt.Sprintf("What is %d + 4?", row),
			Truth: fmt.Sprint(row + 4), Response: fmt.Sprint(row + 5 - int(reward)), Reward: &reward,
			Parts: trace.JSON(fmt.Sprintf(`{"accuracy":%g}`, reward)), Step: step})
	}
	return rows
}

// said notes a line for people.
func (r *recorder) said(line string) {
	r.t.Helper()
	path := filepath.Join(r.dir, rundir.Monitor, rundir.MessagesFile)
	if err := os.WriteFile(path, []byte(began.Format(time.RFC3339)+" "+line+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// played records the rollouts of an agent: turns, calls of a tool, and what the tool said.
func (r *recorder) played(steps ...int) {
	r.t.Helper()
	texts := []string{
		"<|im_start|>", "user\n", "How many lamps can I buy for 100 €?", "<|im_end|>", "\n", "assistant\n",
		"<tool_call>", `{"name": "price", "arguments": {"item": "lamp"}}`, "</tool_call>", "tool\n", "a lamp costs 8 €, 12 in stock",
		"You can buy ", "12.", "13.",
	}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(r.dir, rundir.Traces), Spans: true,
		Text: func(token int32) string { return texts[token] }, Say: func(line string) { r.t.Error(line) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range steps {
		var all []trinity.TrainedExperience
		for run := range 4 {
			tokens := []int32{0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 3, 4, 0, 9, 10, 3, 4, 0, 5, 11, int32(12 + run%2), 3}
			e := rollout(n, "shop/1", run, texts, tokens)
			e.Prompt, e.Truth, e.Response = texts[2], "12", texts[11]+texts[12+run%2]
			for i := range e.Mask {
				e.Mask[i] = i >= 7 && i < 11 || i > 18
			}
			all = append(all, e)
		}
		w.Trained(trinity.Trained{Step: int64(n), Experiences: all})
		r.written(n)
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// allKinds records what a studio has to show: a sweep, an agent, a run that fails, one with stages, one that trains on
// demonstrations, and one that lives.
func allKinds(t *testing.T, root string) (ids []string) {
	t.Helper()
	ids = sweepRuns(t, root)
	agent := record(t, root, "laptop/agent", "algorithm: {algorithm_type: grpo}\n")
	for n := 1; n <= 20; n++ {
		agent.step(n, .5*learnt(n, 1))
	}
	agent.played(10, 20)
	agent.end(monitor.Finished, "")
	for i, stage := range []string{"warmup", "rl"} {
		r := record(t, root, "laptop/two_stages/"+stage, fmt.Sprintf("algorithm: {algorithm_type: %s}\n", []string{"sft", "grpo"}[i]))
		for n := 1; n <= 60; n++ {
			if i > 0 {
				r.step(n, .8*learnt(n, 4))
				continue
			}
			r.log(trinity.Record{Step: int64(n), Role: trinity.RoleTrainer, Time: began.Add(time.Duration(n) * time.Second),
				Metrics: trinity.Metrics{"actor/final_loss": 2 / math.Sqrt(float64(n))}})
		}
		r.end(monitor.Finished, "")
	}
	failed := record(t, root, "laptop/too_high_a_learning_rate", "algorithm: {algorithm_type: ppo}\n")
	failed.step(1, .1)
	failed.end(monitor.Failed, "trainer: step 2: the loss is NaN: lower algorithm.optimizer.lr")
	live := record(t, root, "laptop/live", "seed: 7\n")
	for n := 1; n <= 12; n++ {
		live.step(n, .7*learnt(n, 2))
	}
	t.Cleanup(func() { live.end(monitor.Stopped, "") })
	return ids
}

// complete holds when all curves are there.
const complete = "document.querySelectorAll('.curve-names b').length > 5 &&" +
	" [...document.querySelectorAll('.curve-names b')].every((b) => b.innerText !== '–')"

// drawn are pages with what stands on them when they are complete.
type drawn struct{ name, route, ready string }

func pagesOf(ids []string) []drawn {
	all := ""
	for _, id := range ids {
		all += "&run=" + url.QueryEscape(id)
	}
	all = all[1:]
	one := "run=" + url.QueryEscape(ids[0])
	task := "&task=sums%2F1&explore_step=20"
	first := "&rollout=" + url.QueryEscape(trinity.ExperienceID{Step: 20, Task: "sums/1"}.String())
	return []drawn{
		{"runs", "runs?open=sweep:laptop%2Fsums&sort=-best", "document.querySelectorAll('tbody tr').length >= 12"},
		{"folded", "runs?open=stages:laptop%2Ftwo_stages", "document.querySelectorAll('tbody tr').length >= 5"},
		{"curves", "curves?" + all, complete + " && " + says("maxrl · lr 2e-4 · seed 1")},
		{"curves-groups", "curves?band=1&" + all, complete + " && " + says("maxrl · lr 2e-4 (2)")},
		{"curves-live", "curves?run=laptop%2Flive", "document.querySelector('.u-over')"},
		{"compare", "compare?" + all, "document.querySelectorAll('.values tr').length > 2 &&" +
			" document.querySelector('.ranked') && document.querySelector('.weights code')"},
		{"compare-alone", "compare?alone=1&" + all, "document.querySelectorAll('.ranked tbody tr').length === 12"},
		{"rollouts", "rollouts?step=20&" + one, says("sums/1")},
		{"group", "group?step=20&" + one + task, says("answer is")},
		{"tokens", "tokens?step=20&" + one + first, says("three and four")},
		{"answers", "answers?" + one, says("wrong now 91")},
		{"answers-all", "answers?taskset=&" + one, says("step 60: 110 of 201 right")},
		{"answers-two", "answers?" + one + "&run=" + url.QueryEscape(ids[1]), says("A seed 1 · step 60: 111 of 200 right") + " && " +
			says("only A right 2")},
		{"time", "time?" + one, says("trainer")},
		{"agent", "rollouts?step=20&run=laptop%2Fagent", says("shop/1")},
		{"agent-group", "group?step=20&run=laptop%2Fagent&task=shop%2F1&explore_step=20", says("shop/1")},
		{"agent-tokens", "tokens?step=20&run=laptop%2Fagent&rollout=" + url.QueryEscape(trinity.ExperienceID{Step: 20, Task: "shop/1"}.String()),
			says("12 in stock")},
		{"failed", "curves?run=laptop%2Ftoo_high_a_learning_rate", says("too_high")},
		{"same-task", "compare?same=sums%2F1&run=" + url.QueryEscape(ids[0]) + "&run=" + url.QueryEscape(ids[1]),
			"document.querySelectorAll('.beside article').length > 2"},
		{"same-task-all", "compare?same=sums%2F1&" + all, "document.querySelectorAll('.beside article').length === 48"},
	}
}

// overlap finds texts of table heads, names of curves and the shell that are printed over one another.
const overlap = `(() => {
	const boxes = [...document.querySelectorAll("thead th, thead td, .curve-names li, header a, header button, .row > *")].flatMap((e) => {
		const b = e.getBoundingClientRect();
		return b.width && b.height ? [{ e, b }] : [];
	}), out = [];
	for (const [i, one] of boxes.entries()) for (const other of boxes.slice(i + 1)) {
		if (one.e.contains(other.e) || other.e.contains(one.e) || one.e.closest("table") !== other.e.closest("table")) continue;
		if (one.e.closest("ul, .beside") !== other.e.closest("ul, .beside") || one.e.closest(".beside")) continue;
		if (one.e.cellIndex === 0 || other.e.cellIndex === 0) continue; // the first column stays while others scroll below it
		const wide = Math.min(one.b.right, other.b.right) - Math.max(one.b.left, other.b.left);
		const high = Math.min(one.b.bottom, other.b.bottom) - Math.max(one.b.top, other.b.top);
		if (wide > 2 && high > 2) out.push(one.e.innerText + " | " + other.e.innerText);
	}
	for (const e of document.querySelectorAll("thead th .label")) {
		if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth) out.push("cut: " + e.innerText);
	}
	return out;
})()`

// Every page is drawn with all kinds of runs, wide and narrow, light and dark: nothing is wider than the window, printed
// over another text, untranslated or hard to read. TRINITY_PICTURES keeps the pictures in a folder.
func TestEveryPageIsDrawn(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	root := t.TempDir()
	pages := pagesOf(allKinds(t, root))
	server := httptest.NewServer((&studio.Server{Dir: root, Version: "v1"}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	axe := ""
	if _, err := exec.LookPath("npm"); err == nil && os.Getenv("TRINITY_PICTURES") == "" {
		axe = axeCore(t)
	}
	english := englishAlone(t)
	for _, width := range []int64{1440, 400} {
		w.do(t, chromedp.EmulateViewport(width, 900))
		for _, page := range pages {
			t.Run(fmt.Sprint(page.name, " ", width), func(t *testing.T) {
				for _, theme := range []string{"light", "dark"} {
					value[bool](t, w, fmt.Sprintf("localStorage.setItem('theme', %q) || true", theme))
					w.open(t, page)
					w.picture(t, fmt.Sprintf("%s-%d-%s", page.name, width, theme))
				}
				const widest = "Math.max(document.documentElement.scrollWidth, document.getElementById('main').scrollWidth)"
				if got := value[float64](t, w, widest); got > float64(width) {
					t.Errorf("the page is %v pixels wide", got)
				}
				for _, texts := range value[[]string](t, w, overlap) {
					t.Errorf("printed over one another: %s", texts)
				}
				if axe != "" && width > 1000 {
					w.hasNoBarriers(t, axe, page.name)
				}
				w.noProblems(t)
				w.speaks(t, page, english)
			})
		}
	}
	value[bool](t, w, "localStorage.setItem('theme', 'light') || true")
	w.do(t, chromedp.EmulateViewport(1100, 640))
	for _, page := range pages {
		if slices.Contains([]string{"runs", "curves", "compare"}, page.name) {
			w.open(t, page)
			w.keep(t, page.name)
		}
	}
	t.Run("verdict", func(t *testing.T) { comparesAtOnce(t, w, pages) })
	t.Run("sweep", func(t *testing.T) { opensSweep(t, w) })
	t.Run("legend", func(t *testing.T) { legendHides(t, w, pages) })
	t.Run("files", func(t *testing.T) { chartsAreFiles(t, w, pages) })
	w.noProblems(t)
}

// open shows a page and waits until it is complete.
func (w *window) open(t *testing.T, page drawn) {
	t.Helper()
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(w.site+"/#/"+page.route))
	w.until(t, page.ready)
}

// speaks fails if the Chinese page has words of English alone. It leaves the page in English.
func (w *window) speaks(t *testing.T, page drawn, english []string) {
	t.Helper()
	value[bool](t, w, "localStorage.setItem('language', 'zh') || true")
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(w.site+"/#/"+page.route))
	w.until(t, "document.documentElement.lang === 'zh' &&"+
		" document.querySelectorAll('main table, main .plot, main canvas, main article').length > 0")
	for _, line := range strings.Split(value[string](t, w, "document.body.innerText"), "\n") {
		if slices.Contains(english, strings.TrimSpace(line)) {
			t.Errorf("the Chinese page says %q", line)
		}
	}
	value[bool](t, w, "localStorage.removeItem('language') || true")
}

// englishAlone returns the strings of the page that another language says otherwise.
func englishAlone(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("page/words.js")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^  "([\w.]+)": "([^"{]{5,})",$`).FindAllStringSubmatch(string(text), -1) {
		if en, ok := said[found[1]]; ok && en != found[2] {
			all = append(all, en)
		}
		said[found[1]] = found[2]
	}
	if len(all) < 50 {
		t.Fatalf("words.js has %d strings in English", len(all))
	}
	return all
}

// picture keeps a picture in the folder that somebody names.
func (w *window) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("TRINITY_PICTURES")
	if dir == "" {
		return
	}
	time.Sleep(300 * time.Millisecond) // animations
	ctx, end := context.WithTimeout(w.ctx, patience)
	defer end()
	taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), taken, 0o600); err != nil {
		t.Fatal(err)
	}
}

// opensSweep: a sweep is one row, which opens; one can select all, and a run's actions are a menu.
func opensSweep(t *testing.T, w *window) {
	w.show(t, "runs", "sums")
	const rows = "document.querySelectorAll('tbody tr').length"
	if n := value[int](t, w, rows); n != 5 {
		t.Errorf("%d rows, want 5: a sweep, a run with stages, and three runs", n)
	}
	if !value[bool](t, w, says("12 runs")+" && "+says("2 stages")+" && "+says("0.81")) {
		t.Error("the sweep's row lacks the number of its runs or the best evaluation")
	}
	w.do(t, chromedp.Click(chromedp.CSS("button.opens")))
	w.until(t, rows+" >= 16")
	w.until(t, says("maxrl · lr 2e-4 · seed 1"))
	heads := value[string](t, w, "document.querySelector('thead').innerText")
	for _, want := range []string{"algorithm_type", "lr", "seed", "Best evaluation", "Reward or loss"} {
		if !strings.Contains(heads, want) {
			t.Errorf("the columns lack %q: %q", want, heads)
		}
	}
	w.do(t, chromedp.Click(chromedp.CSS("thead input[type=checkbox]")))
	w.until(t, says("17 selected"))
	w.do(t, chromedp.Click(chromedp.CSS("thead input[type=checkbox]")))
	w.until(t, "!"+says("17 selected"))
	w.do(t, chromedp.Click(chromedp.CSS("tbody tr:nth-of-type(2) .menu-button")))
	w.until(t, "document.querySelector('.menu-list:popover-open')?.innerText.includes('Log')")
	w.do(t, chromedp.KeyEvent("\x1b"))
}

// legendHides: the legend names each run; a click hides its curve, pointing at it stresses it.
func legendHides(t *testing.T, w *window, pages []drawn) {
	w.open(t, pages[2])
	if first := value[string](t, w, "document.querySelector('.charts h2').innerText"); first != evaluation {
		t.Errorf("the first chart is %s", first)
	}
	names := value[[]string](t, w, "[...document.querySelectorAll('.charts article:first-child .curve-names span')].map((e) => e.innerText)")
	if slices.Sort(names); len(slices.Compact(names)) != 12 {
		t.Errorf("the legend has the names %q", names)
	}
	w.do(t, chromedp.Click(chromedp.CSS(".curve-names li:nth-child(3) button")))
	w.until(t, "location.hash.includes('hide=') && document.querySelector('.curve-names li:nth-child(3) button').className.includes('off')")
	w.do(t, chromedp.Click(chromedp.CSS(".curve-names li:nth-child(3) button")))
	w.until(t, "!location.hash.includes('hide=')")
}

// chartsAreFiles: a chart is an SVG, a PNG and a CSV with the values of all runs.
func chartsAreFiles(t *testing.T, w *window, pages []drawn) {
	w.open(t, pages[2])
	value[bool](t, w, `(() => { window.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return "#/kept"; };
		HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }; return true; })()`)
	for i, want := range []string{"svg", "png", "csv"} {
		w.do(t, chromedp.Click(chromedp.CSS(".charts article:first-child .menu-button")))
		w.until(t, "document.querySelector('.menu-list:popover-open')")
		w.do(t, chromedp.Click(chromedp.CSS(fmt.Sprintf(".menu-list:popover-open button:nth-child(%d)", i+1))))
		w.until(t, fmt.Sprintf("saved.length === %d", 2*(i+1)))
		if name := value[string](t, w, fmt.Sprintf("saved[%d]", 2*i+1)); name != "eval_held_out_accuracy_mean@1."+want {
			t.Errorf("the file is %s", name)
		}
	}
	svg := value[string](t, w, "saved[0].text()")
	if strings.Count(svg, "<polyline") != 12 || !strings.Contains(svg, "maxrl · lr 2e-4 · seed 1") || strings.Contains(svg, "NaN") {
		t.Errorf("the drawing is %.3000s", svg)
	}
	if size := value[int](t, w, "saved[2].size"); size < 5000 {
		t.Errorf("the picture has %d bytes", size)
	}
	csv := strings.Split(value[string](t, w, "saved[4].text()"), "\n")
	first := "laptop/sums_algorithm_type_grpo_lr_1e-5_seed0,10,0."
	if len(csv) != 1+12*6+1 || csv[0] != "run,step,"+evaluation || !strings.HasPrefix(csv[1], first) {
		t.Errorf("the table is %q", csv[:3])
	}
}
