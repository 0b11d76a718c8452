package studio_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity/internal/cli"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/plan"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/trinitytest"
)

// asTrinity is the variable with which the test binary is the program.
const asTrinity = "TRINITY_STUDIO_TEST"

// TestMain lets the test binary act as trinity, so that runs are processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(asTrinity) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// settings of the runs that the test records: tiny, and with every token in the trace.
const (
	gritty = `project: real
seed: 0
model: {model_path: ROOT/quickstart/model, init: {style: fan_in}, max_prompt_tokens: 32, max_response_tokens: 8}
monitor: {trace: {tokens: all}}
`
	explored = gritty + `algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none, optimizer: {lr: 1e-3}}
buffer:
  batch_size: 4
  total_steps: 3
  explorer_input:
    taskset:
      name: sums
      path: ROOT/quickstart/data/train.jsonl
      format: {prompt_key: question, response_key: answer}
      reward_fn_args: {pattern: '.*[0-9].*'}
    default_workflow_type: simple_workflow
    default_reward_fn_type: format_reward
`
	preferred = `project: real
seed: 0
model: {model_path: ROOT/algorithms/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 8}
monitor: {trace: {tokens: all}}
mode: train
algorithm: {algorithm_type: dpo, kl_loss_fn_args: {kl_coef: 0.1}, optimizer: {lr: 1e-3}}
buffer:
  train_batch_size: 8
  total_steps: 2
  trainer_input:
    experience_buffer:
      path: ROOT/algorithms/data/pairs.jsonl
      format: {prompt_type: plaintext, prompt_key: question, chosen_key: chosen, rejected_key: rejected}
`
	played = gritty + `algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none, optimizer: {lr: 1e-3}}
buffer:
  batch_size: 2
  total_steps: 2
  explorer_input:
    taskset:
      name: numbers
      path: ROOT/number_guess/data/train.jsonl
      format: {response_key: number}
      workflow_args:
        environment: number_guess
        environment_args: {highest: 7, guesses: 3, ask: '{lowest}-{highest}'}
    default_workflow_type: environment_workflow
`
)

// program is trinity for the tests: it writes below root.
type program struct{ root, examples string }

// command returns the command of a run.
func (p program) command(t *testing.T, name, text string, overrides ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(p.placed(text)), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--quiet", "--config", file, "name=" + name, "checkpoint_root_dir=" + p.root}, overrides...)
	return exec.CommandContext(t.Context(), os.Args[0], args...)
}

// placed returns a configuration with the paths of the examples.
func (p program) placed(text string) string { return strings.ReplaceAll(text, "ROOT", p.examples) }

// record runs a configuration to its end, in several processes if there are several lists of settings.
func (p program) record(t *testing.T, name, text string, processes ...[]string) (output string) {
	t.Helper()
	if len(processes) == 0 {
		processes = [][]string{nil}
	}
	outputs := make([]bytes.Buffer, len(processes))
	var running sync.WaitGroup
	for i, overrides := range processes {
		cmd := p.command(t, name, text, overrides...)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		running.Go(func() { _ = cmd.Run() }) // the pages say how it ended
	}
	running.Wait()
	for i := range outputs {
		output += outputs[i].String()
	}
	return output
}

// kill starts a run and kills its process in the midst of it, as nothing can be told by a process that is
// killed.
func (p program) kill(t *testing.T, name, text string) {
	t.Helper()
	cmd := p.command(t, name, text, "buffer.total_steps=100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.root, "real", name, rundir.Traces)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		steps, err := trace.Steps(dir)
		if spans, _ := trace.ReadSpans(dir); err == nil && len(steps) > 1 && len(spans) > 0 { // a running trace may end in half a span
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

// newProgram returns the program with a directory of its own.
func newProgram(t *testing.T) program {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asTrinity, "1")
	return program{root, filepath.ToSlash(examples)}
}

// recordModes records a run of each mode.
func (p program) recordModes(t *testing.T) {
	t.Helper()
	said := p.record(t, "both", explored)
	said += p.record(t, "again", explored, []string{"algorithm.optimizer.lr=2e-3"})
	said += p.record(t, "explorers", explored, []string{"mode=train", "buffer.train_batch_size=32"},
		[]string{"mode=explore", "buffer.train_batch_size=32", "explorer.name=left", "explorer.share=1/2"},
		[]string{"mode=explore", "buffer.train_batch_size=32", "explorer.name=right", "explorer.share=2/2"})
	said += p.record(t, "dpo", preferred)
	said += p.record(t, "turns", played)
	said += p.record(t, "failed", explored, []string{"algorithm.optimizer.lr=1e30"})
	p.kill(t, "killed", explored)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the runs said:\n%s", said)
		}
	})
}

// All pages show what runs of each mode have really written, and axe-core finds nothing serious in them.
// A quickstart starts, runs and stops in the browser.
func TestRealRunsInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	if testing.Short() {
		t.Skip("records a run of each mode")
	}
	p := newProgram(t)
	quickstart, err := os.ReadFile(filepath.Join(p.examples, "quickstart", "quickstart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(quickstart), "examples/", p.examples+"/")
	text = strings.Replace(text, "total_steps: 120", "total_steps: 10", 1) // of the warmup
	text = strings.Replace(text, "checkpoint_root_dir:", "# checkpoint_root_dir:", 1)
	s := &studio.Server{
		Dir: p.root, Version: "v1", Every: 10 * time.Millisecond, Control: "secret", Program: []string{os.Args[0], "run", "--config"},
		Plan: func(cfg *config.Config) (*config.Plan, error) { return cfg.Plan(config.Facts{}) },
		Advise: func(dir string, load func(...string) (*config.Config, error)) (any, error) {
			return (&plan.Planner{Load: load, JobDir: dir, MaxStaleness: 2, Steps: 20}).Plan()
		},
		Templates: []studio.Template{
			{Name: "other", Doc: "never chosen", Text: "mode: train\n"}, {Name: "quickstart", Doc: "learns sums", Text: text},
		},
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	p.recordModes(t)
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#token=secret"))
	w.until(t, says("both"))
	t.Run("states", func(t *testing.T) { tellsStates(t, w) })
	for _, name := range []string{"both", "explorers", "dpo", "turns", "failed", "killed"} {
		t.Run(name, func(t *testing.T) { p.opens(t, w, name) })
	}
	t.Run("axe", func(t *testing.T) { p.isAccessible(t, w) })
	t.Run("live", func(t *testing.T) { p.lives(t, w) })
}

// tellsStates: the list has each run with its state, and the line of the failed one.
func tellsStates(t *testing.T, w *window) {
	w.show(t, "runs", "the gradient of optimizer step 2 is not finite")
	for name, state := range map[string]string{
		"both": "finished", "explorers": "finished", "dpo": "finished", "turns": "finished", "failed": "failed", "killed": "killed",
	} {
		w.until(t, fmt.Sprintf("[...document.querySelectorAll('tbody tr')].some((r) => r.innerText.includes(%q) && r.innerText.includes(%q))",
			"real/"+name, state))
	}
	w.noProblems(t)
}

// opens: every page shows the run.
func (p program) opens(t *testing.T, w *window, name string) {
	run, dir := "run="+url.QueryEscape("real/"+name), filepath.Join(p.root, "real", name, rundir.Traces)
	steps, err := trace.Steps(dir)
	if err != nil || len(steps) == 0 {
		t.Fatalf("the trace of %s has the steps %v: %v", name, steps, err)
	}
	step := steps[len(steps)-1]
	rows, err := trace.ReadStep(dir, step)
	if err != nil {
		t.Fatal(err)
	}
	answers := trace.Answers(rows)
	a := answers[len(answers)-1]
	w.show(t, "curves?"+run, "real/"+name)
	w.until(t, "document.querySelector('.u-over')")
	w.show(t, fmt.Sprintf("rollouts?%s&step=%d", run, step), fmt.Sprintf("%d of %d", len(answers), len(answers)))
	w.show(t, fmt.Sprintf("group?%s&step=%d&task=%s&explore_step=%d", run, step, url.QueryEscape(a.Task), a.ExploreStep), "Mark two")
	w.until(t, "document.querySelectorAll('.answers article').length > 0")
	position := int(a.PromptTokens)
	w.show(t, fmt.Sprintf("tokens?%s&step=%d&rollout=%s&at=%d", run, step, url.QueryEscape(a.ID), position), "")
	for stream, values := range map[string]trace.Floats{"logprobs": a.Logprobs, "advantages": a.Advantages, "now_logprobs": a.Updates[0].Now} {
		if len(values) == len(a.Tokens) {
			number := strconv.FormatFloat(float64(values[position]), 'f', -1, 32)
			w.until(t, fmt.Sprintf("document.querySelector('.token-panel td.%s')?.innerText.replace('−', '-') === %q", stream, number))
		}
	}
	w.show(t, "time?"+run, "trainer")
	w.until(t, "document.querySelectorAll('.lane-name').length > 0")
	w.show(t, "log?"+run, "")
	w.until(t, "document.querySelector('.log')?.innerText || "+says("did not start this run")) // what it has said, if it has
	w.show(t, "config?run="+url.QueryEscape("real/"+name), "Difference")
	w.until(t, "document.querySelector('.editor textarea').value.includes('name: "+name+"_2')")
	if name == "dpo" {
		w.show(t, fmt.Sprintf("group?%s&step=%d&task=%s&explore_step=%d", run, step, url.QueryEscape(a.Task), a.ExploreStep), "preferred")
		if value[bool](t, w, says("nothing is learned")) {
			t.Error("preferences, which have no reward, are said to teach nothing")
		}
	}
	if name == "turns" {
		w.show(t, fmt.Sprintf("rollouts?%s&step=%d", run, step), "numbers")
		w.show(t, fmt.Sprintf("tokens?%s&step=%d&rollout=%s", run, step, url.QueryEscape(a.ID)), "user")
	}
	if name == "dpo" {
		w.show(t, "time?"+run, "there is nothing to plan")
	}
	if name == "explorers" {
		w.show(t, "time?"+run, "left")
		w.until(t, says("right"))
	}
	w.noProblems(t)
}

// isAccessible: axe-core finds nothing serious on any page, light or dark.
func (p program) isAccessible(t *testing.T, w *window) {
	axe := axeCore(t)
	steps, err := trace.ReadStep(filepath.Join(p.root, "real/both", rundir.Traces), 2)
	if err != nil {
		t.Fatal(err)
	}
	const run = "run=real%2Fboth"
	rollout := url.QueryEscape(steps[0].ID)
	task := url.QueryEscape(steps[0].Task)
	pages := []struct{ name, route, text string }{
		{"runs", "runs", "real/failed"}, {"curves", "curves?" + run + "&run=real%2Fagain", "Smooth"},
		{"compare", "compare?" + run + "&run=real%2Fagain", "The same task"},
		{"rollouts", "rollouts?" + run + "&step=2", "16 of 16"}, {"group", "group?" + run + "&step=2&task=" + task, "answers"},
		{"tokens", "tokens?" + run + "&step=2&rollout=" + rollout + "&at=20", "position"},
		{"messages", "tokens?" + run + "&step=2&read=1&rollout=" + rollout, "Shade by"}, {"time", "time?" + run, "What else shortens a step"},
		{"answers", "answers?" + run + "&which=all", "Answers"},
		{"config", "config?run=real%2Fboth&against=real%2Fagain", "Often changed"}, {"log", "log?" + run, "mode both"},
	}
	for _, page := range pages {
		w.show(t, page.route, page.text)
		if page.name == "messages" {
			w.until(t, "document.querySelector('.messages details')")
		}
		w.hasNoBarriers(t, axe, page.name)
		if page.name == "config" {
			w.do(t, chromedp.Click(chromedp.CSS(".templates summary")))
			w.until(t, "document.activeElement.type === 'search'")
			w.findsBarriers(t, "light", "templates")
		}
		if page.name == "runs" {
			w.do(t, chromedp.KeyEvent("?"))
			w.until(t, "document.querySelector('dialog').open")
			w.findsBarriers(t, "light", "keys")
		}
	}
	w.noProblems(t)
}

// lives: a quickstart starts from a template, its steps move, a click on its curve opens the rollouts of
// that step, and Stop ends it with a checkpoint.
func (p program) lives(t *testing.T, w *window) {
	value[bool](t, w, "sessionStorage.removeItem('config') || true")
	w.show(t, "config", "Template")
	w.do(t, chromedp.Click(chromedp.CSS(".templates summary")))
	w.until(t, "document.activeElement.type === 'search'")
	w.do(t, chromedp.KeyEvent("s"), chromedp.KeyEvent("u"), chromedp.KeyEvent("m"), chromedp.KeyEvent("s"))
	w.until(t, says("1 of 2"))
	w.do(t, chromedp.Click(chromedp.CSS(".templates li button")))
	w.until(t, says("No mistakes found."))
	w.do(t, chromedp.Click(chromedp.CSS("button.primary")))
	w.until(t, "location.hash === '#/log?run=trinity-examples%2Fquickstart'")
	const id = "trinity-examples/quickstart/rl"
	const row = "[...document.querySelectorAll('tbody tr')].find((r) => r.querySelector('a.name')?.title === '" + id + "')"
	const step = "Number(/(\\d+) \\/ 120/.exec(" + row + "?.innerText ?? '')?.[1] ?? 0)"
	w.show(t, "runs?q=quickstart", "quickstart")
	w.until(t, step+" > 0")
	before := value[float64](t, w, step)
	w.until(t, fmt.Sprintf("%s > %v", step, before+1))

	run := "run=" + url.QueryEscape(id)
	w.show(t, "curves?"+run+"&name=actor%2Fgrad_norm", "actor/grad_norm")
	w.until(t, "document.querySelector('.u-over')")
	const opened = "location.hash.startsWith('#/rollouts') && location.hash.includes('step=1')"
	for end := time.Now().Add(patience); !value[bool](t, w, opened) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		at := value[[]float64](t, w, "(() => { const r = document.querySelector('.u-over')?.getBoundingClientRect();"+
			" return r && location.hash.startsWith('#/curves') ? [r.left + 2, r.top + r.height / 2] : []; })()")
		if len(at) > 0 { // what the run says meanwhile moves the plot
			w.do(t, chromedp.MouseEvent("mouseMoved", at[0], at[1]), chromedp.MouseClickXY(at[0], at[1]))
		}
	}
	w.until(t, opened)
	w.until(t, says("sums/"))

	w.show(t, "runs?q=quickstart", "quickstart")
	w.until(t, step+" > 0")
	const stop = "[" + row + ".querySelectorAll('button')].flatMap((l) => [...l]).find((b) => b.innerText === 'Stop')"
	w.until(t, row)
	value[bool](t, w, row+".querySelector('.menu-button').click() || true")
	w.until(t, stop)
	value[bool](t, w, stop+".click() || true")
	w.until(t, row+".innerText.includes('stopped')")
	stopped := value[float64](t, w, step)
	newest, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(id), "latest_checkpointed_iteration.txt"))
	if err != nil || strings.TrimSpace(string(newest)) != fmt.Sprint(stopped) {
		t.Errorf("stopped at step %v with the checkpoint %s, %v", stopped, newest, err)
	}
	w.noProblems(t)
}
