package studio_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/trinitytest"
)

// say writes a message and sends it.
func (w *window) say(t *testing.T, text string) {
	t.Helper()
	value[bool](t, w, fmt.Sprintf("(() => { const a = document.querySelector('.ask textarea'); a.focus(); a.select();"+
		" return document.execCommand('insertText', false, %q); })()", text))
	w.until(t, "!document.querySelector('.ask button.primary').disabled")
	value[bool](t, w, "document.querySelector('.ask button.primary').click() || true")
}

// choose sets a selection of the nth model.
func (w *window) choose(t *testing.T, seat, list int, option string) {
	t.Helper()
	of := fmt.Sprintf("document.querySelectorAll('.seat')[%d]?.querySelectorAll('select')[%d]", seat, list)
	w.until(t, fmt.Sprintf("%s?.querySelector('option[value=%q]')", of, option))
	if list == 1 {
		w.until(t, of+".value !== ''") // the page has chosen the newest
	}
	value[bool](t, w, fmt.Sprintf("(() => { const s = %s; s.value = %q;"+
		" return s.dispatchEvent(new Event('change', {bubbles: true})); })()", of, option))
	w.until(t, fmt.Sprintf("new URLSearchParams(location.hash.split('?')[1]).getAll(%q)[%d] === %q",
		[]string{"run", "model"}[list], seat, option))
}

// loadModel loads the nth model and waits until it is ready.
func (w *window) loadModel(t *testing.T, seat int) {
	t.Helper()
	button := fmt.Sprintf("document.querySelectorAll('.seat')[%d].querySelector('button.primary:enabled')", seat)
	w.until(t, button)
	value[bool](t, w, button+".click() || true")
	w.until(t, fmt.Sprintf("document.querySelectorAll('.seat')[%d].innerText.includes('ready')", seat))
}

// answer is the text of an answer: the nth turn, the model's place.
func answer(turn, seat int) string {
	return fmt.Sprintf("document.querySelectorAll('.turns > article')[%d]?.querySelectorAll('.said > div')[%d]"+
		"?.querySelector('.text')?.innerText", turn, seat)
}

// Somebody talks to two models in a real browser: they answer side by side, and what they write is text.
func TestTalkInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	t.Setenv("STUDIO_TEST_MODEL", "1")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := record(t, root, "sums/grpo", "")
	run.step(1, .1)
	run.end(monitor.Finished, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &studio.Server{Dir: root, Version: "v1", Control: "secret", Talker: studio.Talker{
		Models: func(string) ([]studio.Model, error) {
			return []studio.Model{
				{Name: "global_step_60", Kind: "adapter", Path: "answers"}, {Name: "global_step_30", Kind: "model", Path: "answers again"},
				{Name: "global_step_10", Kind: "model", Path: "early", Why: "it has only what training resumes from"},
			}, nil
		},
		Plan: func(path string, length int) (studio.ModelPlan, error) {
			if path == "models/tiny" {
				return studio.ModelPlan{}, fmt.Errorf("there is no model %s", path)
			}
			return studio.ModelPlan{Command: []string{self, path}, Length: 4096, Sum: 300 << 20}, nil
		},
	}}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { s.Close() })
	w := openWindow(t, server.URL)
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#token=secret"))
	w.until(t, says("Talk"))
	w.show(t, "talk", "Load a model first.")
	w.choose(t, 0, 0, "sums/grpo")
	w.until(t, "location.hash === '#/talk?run=sums%2Fgrpo&model=global_step_60'") // the newest that has a model
	if !value[bool](t, w, `document.querySelector('.seat option[value="global_step_10"]').disabled`) {
		t.Error("one can choose a checkpoint without a model")
	}
	w.loadModel(t, 0)
	w.say(t, "What is 3 + 4?")
	w.until(t, answer(0, 0)+" === 'I add 3 to 4, and the answer is 7.'")
	w.until(t, says("11 tokens in"))

	value[bool](t, w, "[...document.querySelectorAll('button')].find((b) => b.innerText === 'Add a second model').click() || true")
	w.choose(t, 1, 1, "global_step_30")
	w.loadModel(t, 1)
	value[bool](t, w, "document.querySelector('.row input[type=checkbox]').click() || true")
	w.say(t, "And 4 + 5?")
	w.until(t, "document.querySelectorAll('.shaded').length === 3")
	// The first model knows the first turn, and the second one does not.
	w.until(t, "document.querySelectorAll('.shaded')[1].innerText.startsWith('You said And 4 + 5?, after 2 messages.')")
	w.until(t, "document.querySelectorAll('.shaded')[2].innerText.startsWith('You said And 4 + 5?, after 0 messages.')")
	w.do(t, chromedp.Focus(chromedp.CSS(".shaded")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	w.until(t, says(`"add " 60.7 % (−0.5) likeliest: "add " 60.7 %`))
	w.noProblems(t)
	w.keep(t, "talk")
	t.Run("axe", func(t *testing.T) { w.hasNoBarriers(t, axeCore(t), "talk") })

	// The answer ends when somebody stops it, and the next one knows what it had said.
	w.say(t, "Go on forever")
	for seat := range 2 {
		w.until(t, answer(2, seat)+"?.includes('on and on and')")
	}
	value[bool](t, w, "document.querySelector('.ask button').click() || true")
	w.until(t, "document.querySelectorAll('.flag').length === 2 && document.querySelector('.flag').innerText === 'stopped'")
	w.say(t, script+escape+marks)
	w.until(t, "document.querySelectorAll('.shaded')[3]?.innerText.includes('after 6 messages.')")
	w.until(t, "document.querySelectorAll('.shaded')[3]?.innerText.includes('window.pwned = 1')")
	if value[bool](t, w, "'pwned' in window || document.querySelector('main script, main img') !== null"+
		" || /[\\u001b\\u202e]/.test(document.body.innerText)") {
		t.Error("what a model wrote became a part of the page")
	}
	w.noProblems(t)

	// What was said stays while one looks at other pages.
	w.do(t, chromedp.Evaluate[chromedp.Void]("location.hash = '#/runs'"))
	w.until(t, says("Finished")+"||"+says("finished"))
	value[bool](t, w, "history.back() || true")
	w.until(t, "document.querySelectorAll('.turns > article').length === 4")
	value[bool](t, w, "[...document.querySelectorAll('button')].find((b) => b.innerText === 'Clear').click() || true")
	w.until(t, "document.querySelectorAll('.turns > article').length === 0")
	w.do(t, chromedp.EmulateViewport(400, 700))
	w.isNarrow(t, "talk")
	w.do(t, chromedp.EmulateViewport(1100, 640))
	const unload = "document.querySelector('.seat .row button:not(.primary)')" // there once the page knows that it is loaded
	w.until(t, unload)
	value[bool](t, w, unload+".click() || true")
	w.until(t, says("ended: you ended it"))
	w.choose(t, 0, 1, "base")
	value[bool](t, w, "document.querySelector('.seat button.primary').click() || true")
	w.until(t, says("base of sums/grpo: there is no model models/tiny"))
	// Another page has a question, and wants the weights that gave an answer.
	const question = "document.querySelector('.ask textarea').value === 'And 4 + 5?'"
	w.show(t, "talk?run=sums%2Fgrpo&version=30&ask=And+4+%2B+5%3F", "Add a second model")
	w.until(t, "location.hash.endsWith('&model=global_step_30') && "+question)
	if value[bool](t, w, says("may answer otherwise")) {
		t.Error("the page warns of the weights that somebody wants")
	}
	w.show(t, "talk?run=sums%2Fgrpo&version=7&ask=And+4+%2B+5%3F", "The weights of step 7, which gave that answer, are not kept")
	w.until(t, "location.hash.endsWith('&model=global_step_60')")
	w.choose(t, 0, 1, "global_step_30")
	// Two models are chosen at once.
	w.show(t, "talk?run=sums%2Fgrpo&run=sums%2Fgrpo", "Remove the second model")
	w.until(t, "location.hash.endsWith('&model=global_step_60&model=global_step_60')")
	w.mu.Lock()
	w.problems = nil // the console tells the status 400
	w.mu.Unlock()
	value[bool](t, w, "localStorage.setItem('language', 'zh') || true")
	w.showDark(t, "talk?run=sums%2Fgrpo", "添加第二个模型")
	value[bool](t, w, "localStorage.removeItem('language') || true")
	w.noProblems(t)

	shows := httptest.NewServer((&studio.Server{Dir: root, Version: "v1"}).Handler())
	t.Cleanup(shows.Close)
	other := &window{ctx: w.ctx, site: shows.URL}
	other.show(t, "talk", "Talking is off")
	if value[bool](t, other, "[...document.querySelectorAll('nav a')].some((a) => a.innerText === 'Talk')") {
		t.Error("a studio that only shows leads to its page")
	}
	other.do(t, chromedp.Navigate("about:blank"))
}
