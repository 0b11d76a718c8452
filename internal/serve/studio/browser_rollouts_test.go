package studio_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/trinitytest"
)

// manyTokens is how long the longest answer of the pages' tests is.
const manyTokens = 32768

// answered writes the trace of a train step with two answers to a task, of which one is long and says
// what must stay text, and one failed rollout.
func answered(t *testing.T, dir string) (long trinity.ExperienceID) {
	t.Helper()
	words := []string{"<|im_start|>", "user", "\n", "<|im_end|>", "assistant", " word", " other", "<script>window.pwned=1</script>",
		"\x1b[31m", "\u202e", "<0xE4>", " end"}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), Spans: true, Text: func(id int32) string { return words[id] },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(run, n int, said string, reward float64) trinity.TrainedExperience {
		tokens := append([]int32{0, 1, 2, 5, 3, 2, 0, 4, 2}, slices.Repeat([]int32{5, 6}, n)[:n-11]...)
		copy(tokens[20:], []int32{7, 8, 9, 10})
		tokens = append(tokens, 11, 3)
		of := func(f func(t int) float64) (values []float32) {
			for t := range tokens {
				if t < 9 {
					values = append(values, 0)
				} else {
					values = append(values, float32(f(t)))
				}
			}
			return values
		}
		logprob := func(t int) float64 { return -0.25 - float64(t%7)/3 }
		e := trinity.Experience{
			ID: trinity.ExperienceID{Step: 3, Task: "a/b", Run: run}, Tokens: tokens, PromptLen: 9,
			Prompt: strings.Repeat(" word", 1+1000*run) + " far"[:4*run], Response: said, Truth: "2",
			Mask:     append(make([]bool, 9), slices.Repeat([]bool{true}, len(tokens)-9)...),
			Logprobs: of(logprob), Reward: trinity.NewReward(map[string]float64{"accuracy": reward}),
			Advantages: of(func(int) float64 { return reward - 0.5 }),
		}
		e.OldLogprobs = of(func(t int) float64 { return logprob(t) + 0.125 })
		return trinity.TrainedExperience{
			Experience: e,
			Updates: []trinity.Update{{
				Now: trinity.TokenStats{Logprob: of(func(t int) float64 { return logprob(t) + 0.375 })},
				Grads: trinity.TokenGrads{Logprob: of(func(t int) float64 {
					if t == 30 {
						return 0
					}
					return 0.0625 * (0.5 - reward)
				})},
			}},
		}
	}
	all := []trinity.TrainedExperience{
		answer(0, manyTokens, "the same start, then <b>bold</b>", 1), answer(1, 64, "the same start, then nothing", 0),
	}
	w.Trained(trinity.Trained{Step: 4, Experiences: all})
	w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: 3, Task: "c"}, Role: trinity.RoleExplorer, Kind: "panic",
		Reason: "boom\nat <i>line</i> 7", Retries: 2, Sampled: []int32{7}, Time: time.Now()})
	w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: 3, Task: "d"}, Role: trinity.RoleExplorer, Kind: trinity.DroppedAnswer,
		Reason: "dropped by advantage, no valid reward: no number", Sampled: []int32{11}, Time: time.Now()})
	for step, said := range map[int64][]string{0: {"4", "no idea"}, 4: {"5 <b>or</b> more", "6"}} {
		run, one, nought := int64(0), 1.0, 0.0
		rows := []trace.Evaluated{
			{Taskset: "few", Run: &run, Prompt: "2+2=?", Truth: "4", Response: said[0], Reward: &one, Step: step},
			{Taskset: "few", Row: 1, Run: &run, Prompt: strings.Repeat("wide", 300), Truth: "6", Response: said[1], Reward: &nought, Step: step,
				Chat: trace.JSON(`[{"role":"user","content":"3+3=?"},{"role":"assistant","content":"` + said[1] + `"}]`)},
		}
		if step > 0 {
			rows[0].Reward, rows[1].Reward = &nought, &one
		}
		w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: step, Rows: rows})
	}
	begin := time.Unix(1e9, 0)
	w.Span(trinity.Span{Role: trinity.RoleTrainer, Kind: trinity.SpanWait, For: "explorer", Step: 4, Begin: begin,
		End: begin.Add(3 * time.Second)})
	w.Span(trinity.Span{Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Name: "a/b", Step: 3, Experience: all[0].ID, Begin: begin,
		End: begin.Add(2 * time.Second)})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return all[0].ID
}

// The pages of a step show its answers, each with its tokens and their numbers.
func TestAnswersInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	dir := t.TempDir()
	long := answered(t, filepath.Join(dir, "r"))
	answered(t, filepath.Join(dir, "s"))
	unchanged(t, filepath.Join(dir, "even"))
	rows, err := trace.ReadStep(filepath.Join(dir, "r", rundir.Traces), 4)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer((&studio.Server{Dir: dir}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	tokens := "tokens?run=r&step=4&rollout=" + url.QueryEscape(long.String())
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"numbers", func(t *testing.T) { hasNumbers(t, w, tokens, &rows[0]) }},
		{"scroll", func(t *testing.T) { scrolls(t, w, tokens) }},
		{"rollouts", func(t *testing.T) { filtersRollouts(t, w) }},
		{"group", func(t *testing.T) { differ(t, w) }},
		{"answers", func(t *testing.T) { comparesAnswers(t, w) }},
		{"answers of runs", func(t *testing.T) { comparesRuns(t, w) }},
		{"telephone", func(t *testing.T) { stacks(t, w, tokens) }},
		{"time", func(t *testing.T) { opensRollout(t, w) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t)
			w.noProblems(t)
			if value[bool](t, w, "'pwned' in window || document.querySelector('main script, main img, .text b, .text i, .lines b') !== null") {
				t.Error("what a model wrote became a part of the page")
			}
		})
	}
}

// hasNumbers: the panel has the numbers of the row of the Parquet file, and the arrow keys move.
func hasNumbers(t *testing.T, w *window, route string, row *trace.Row) {
	w.show(t, route+"&at=24", "0.125 nats a token")
	w.until(t, says("1 of 32,759 tokens clipped"))
	for _, at := range []int{24, 25} {
		for name, v := range map[string]float32{
			"logprobs": row.Logprobs[at], "old_logprobs": row.OldLogprobs[at], "now_logprobs": row.Now[at], "advantages": row.Advantages[at],
			"d_logprobs": row.DLogprob[at],
		} {
			want := strconv.FormatFloat(float64(v), 'f', -1, 32)
			w.until(t, fmt.Sprintf("document.querySelector('.token-panel td.%s').innerText === %q", name, want))
		}
		w.do(t, chromedp.Focus(chromedp.CSS(".lines")), chromedp.KeyEvent(kb.ArrowRight))
	}
	w.do(t, chromedp.KeyEvent("c"))
	w.until(t, says("clipped: it stays as it is"))
	w.do(t, chromedp.KeyEvent("1"))
	w.until(t, "location.hash.includes('by=probability')")
}

// scrolls: of a long answer few rows are elements, and the last one shows.
func scrolls(t *testing.T, w *window, route string) {
	w.show(t, route, "<script>window.pwned=1</script>")
	for _, shown := range []string{"␛[31m", "U+202E", "‹e4›"} {
		w.until(t, says(shown))
	}
	if n := value[float64](t, w, "document.querySelectorAll('.lines span').length"); n > 3000 {
		t.Errorf("%v tokens are elements", n)
	}
	value[bool](t, w, "(document.querySelector('.lines').scrollTop = 1e9) > 0")
	w.until(t, "document.querySelector('.lines').innerText.includes(' end')")
	w.do(t, chromedp.KeyEvent("m"))
	w.until(t, "document.querySelectorAll('.messages details').length === 2")
}

// filtersRollouts: a bin of the histogram filters, and the failed rollouts have their reason.
func filtersRollouts(t *testing.T, w *window) {
	w.show(t, "rollouts?run=r", "2 of 2")
	w.do(t, chromedp.Click(chromedp.CSS(".histogram .bins button:last-child")))
	w.until(t, says("1 of 2"))
	w.show(t, "rollouts?run=r&step=4&q=NOTHING", "1 of 2")
	w.do(t, chromedp.Click(chromedp.CSS(".table tbody tr a")))
	w.until(t, says("disagree by"))
	w.show(t, "rollouts?run=r&step=4&q=Word+FAR", "1 of 2") // behind what the table has
	w.show(t, "rollouts?run=r&step=4", "boom")
	w.do(t, chromedp.Click(chromedp.CSS(".failures summary")))
	w.until(t, says("at <i>line</i> 7"))
	w.until(t, says("<script>window.pwned=1</script>"))
	w.until(t, says("1 rollout failed in these explorer steps"))
	w.until(t, says("1 answer of these explorer steps was dropped before the trainer"))
	w.until(t, says("task d, answer 0: dropped by advantage, no valid reward: no number"))
}

// Where no train step is kept, or one without answers, the newest failures are there.
func TestFailuresInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	dir := t.TempDir()
	for _, run := range []string{"none", "empty"} {
		w, err := trace.New(trace.Options{
			Dir: filepath.Join(dir, run, rundir.Traces), Text: func(int32) string { return "<b>asked</b>" },
			Say: func(line string) { t.Error(line) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if run == "empty" {
			w.Trained(trinity.Trained{Step: 1})
		}
		for i, role := range []string{trinity.RoleExplorer, trinity.RoleEvaluation} {
			w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: int64(i), Task: "c"}, Role: role, Kind: "panic",
				Reason: "boom\nat <i>line</i> 7", Prompt: []int32{1}, Time: time.Unix(int64(1e9+i), 0)})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer((&studio.Server{Dir: dir}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	for run, says := range map[string]string{"none": "has no train step", "empty": "no answer of this step"} {
		w.show(t, "rollouts?run="+run, "The 2 newest rollouts of this run that failed")
		if text := value[string](t, w, "document.querySelector('main').innerText"); !strings.Contains(text, says) {
			t.Errorf("%s: the page says\n%s", run, text)
		}
		w.until(t, "document.querySelector('.failures summary').innerText.includes('evaluation')")
		w.do(t, chromedp.Click(chromedp.CSS(".failures summary")))
		w.until(t, "document.querySelector('.failures details').innerText.includes('at <i>line</i> 7')")
		if value[bool](t, w, "document.querySelector('.text b, .text i') !== null") {
			t.Error("what a model wrote became a part of the page")
		}
		w.noProblems(t)
	}
}

// differ: two answers that somebody marks have their difference.
func differ(t *testing.T, w *window) {
	w.show(t, "group?run=r&step=4&task=a%2Fb", "2 answers, mean reward 0.5")
	w.until(t, says("right answer: 2"))
	w.until(t, "document.querySelector('article.given.is-right .verdict').innerText === '✓ right'")
	w.until(t, "document.querySelector('article.given.is-wrong .verdict').innerText === '✗ wrong'")
	if common := value[string](t, w, "document.querySelector('.common').innerText"); common != "the same start, then " {
		t.Errorf("%q is dimmed", common)
	}
	for n := range 2 {
		w.do(t, chromedp.Click(chromedp.CSS(fmt.Sprintf("article:nth-child(%d) input", n+1))))
		w.until(t, fmt.Sprintf("document.querySelectorAll('article.chosen').length === %d", n+1))
	}
	w.until(t, "document.querySelector('ins') && document.querySelector('ins').innerText === 'nothing'")
	if gone := value[string](t, w, "document.querySelector('del').innerText"); gone != "<b>bold</b>" {
		t.Errorf("%q is gone", gone)
	}
}

// comparesAnswers: two evaluations stand side by side, what has become wrong first, and fit a telephone.
func comparesAnswers(t *testing.T, w *window) {
	w.show(t, "answers?run=r", "step 4: 1 of 2 right (50 %)")
	w.until(t, "document.querySelectorAll('.held article').length === 2")
	w.until(t, "document.querySelector('.held article').innerText.includes('5 <b>or</b> more')")
	w.until(t, "document.querySelector('.held .is-wrong .verdict').innerText === '✗ wrong'")
	w.until(t, says("3+3=?"))
	w.do(t, chromedp.EmulateViewport(400, 700))
	w.isNarrow(t, "answers")
	w.do(t, chromedp.EmulateViewport(1100, 640))
	w.show(t, "answers?run=r&which=lost", "1 of 1")
	w.show(t, "answers?run=r&which=all&held=IDEA", "1 of 1")
	w.showDark(t, "answers?run=r", "wrong → right 1")
	w.show(t, "rollouts?run=r&step=4&which=wrong", "1 of 2")
	w.until(t, says("✗ wrong"))
}

// unchanged writes two evaluations with the same answers, of which one is wrong.
func unchanged(t *testing.T, dir string) {
	t.Helper()
	w, err := trace.New(trace.Options{Dir: filepath.Join(dir, rundir.Traces), Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	for step := range int64(2) {
		run, one, nought := int64(0), 1.0, 0.0
		w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: step, Rows: []trace.Evaluated{
			{Taskset: "few", Run: &run, Prompt: "2+2=?", Truth: "4", Response: "4", Reward: &one, Step: step, ModelVersion: step},
			{Taskset: "few", Row: 1, Run: &run, Prompt: "3+3=?", Truth: "6", Reward: &nought, Step: step, ModelVersion: step,
				Response: "<think>" + strings.Repeat("so many thoughts ", 400) + "</think>it is 7"},
		}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// comparesRuns: the page says which answers only one of two runs has right. Two evaluations of one run that differ in nothing
// begin with the wrong answers. Of a long answer the page shows the end.
func comparesRuns(t *testing.T, w *window) {
	w.show(t, "answers?run=r&run=s", "B wrong 1")
	w.until(t, "document.querySelector('.segments [aria-pressed=true]').innerText === 'B wrong 1'")
	for _, text := range []string{"only A right 0", "A r · step 4: 1 of 2 right", "B s · step 4: 1 of 2 right"} {
		w.until(t, says(text))
	}
	if value[bool](t, w, says("right → wrong")) {
		t.Error("an answer of a run becomes one of another run")
	}
	w.do(t, chromedp.Click(chromedp.CSS(".row button[aria-label='Swap A and B']")))
	w.until(t, says("A s · step 4"))
	w.show(t, "answers?run=r&run=s&a=r%400", "only A right 1")
	w.show(t, "answers?run=even", "wrong now 1")
	w.until(t, "document.querySelector('.segments [aria-pressed=true]').innerText === 'wrong now 1'")
	w.until(t, "document.querySelectorAll('.held article').length === 1")
	answer := value[string](t, w, "document.querySelector('.held .given .text').innerText")
	if !strings.HasSuffix(answer, "it is 7") || strings.Contains(answer, "<think>") {
		t.Errorf("the answer is shown as %q", answer)
	}
	const again = "document.querySelector('.held .given:last-child a').getAttribute('href')"
	if link := value[string](t, w, again); link != "#/talk?run=even&version=1&ask=3%2B3%3D%3F&shade=1" {
		t.Errorf("to ask again leads to %s", link)
	}
}

// stacks: a window of a telephone shows of each answer its question, the right answer and its end; the tokens begin with the
// least likely one.
func stacks(t *testing.T, w *window, tokens string) {
	w.do(t, chromedp.EmulateViewport(400, 800))
	w.show(t, "rollouts?run=r&step=4", "right answer: 2")
	w.until(t, "document.querySelectorAll('.stacked').length === 2")
	first := value[string](t, w, "document.querySelector('.stacked').innerText")
	for _, text := range []string{"a/b", "answer 0", "✓ right", "word", "<b>bold</b>"} {
		if !strings.Contains(first, text) {
			t.Errorf("the row lacks %q: %q", text, first)
		}
	}
	w.isNarrow(t, "rollouts")
	w.show(t, tokens, "Least likely:")
	w.until(t, says("Group a/b")+" && "+says("answer 0"))
	w.isNarrow(t, "tokens")
	w.do(t, chromedp.EmulateViewport(1100, 640))
	w.until(t, "document.querySelector('.token-panel td.logprobs').innerText === '-2.25'")
	w.until(t, says("template"))
	w.show(t, "rollouts?run=r&step=4", "end of the answer")
	if value[bool](t, w, "document.querySelector('.stacked') !== null") {
		t.Error("a wide window stacks its rows")
	}
}

// opensRollout: a rollout in the lanes leads to its tokens.
func opensRollout(t *testing.T, w *window) {
	w.show(t, "time?run=r", "trainer waits for explorer")
	w.until(t, says("The trainer waited for rollouts 100 % of the time."))
	w.do(t, chromedp.Click(chromedp.CSS(".time-tables button")))
	w.until(t, says("Open its tokens"))
	w.do(t, chromedp.Click(chromedp.CSS(".panel.row button")))
	w.until(t, "location.hash.startsWith('#/tokens')")
	w.until(t, says("disagree by"))
	value[bool](t, w, "history.back() || true")
	w.until(t, says("trainer waits for explorer"))
	w.do(t, chromedp.KeyEvent("+"))
	w.until(t, "location.hash.includes('from=1000000000750')")
}
