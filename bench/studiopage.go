package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
)

// patience is how long a page may take to show something.
const patience = time.Minute

// look is a page of the studio in a browser without a window.
type look struct {
	dir     string // of the run
	site    string
	browser context.Context
	lock    *durable.Lock // of the run, which is under way
	measure func(l *look, number int) (float64, error)
}

// browserOf is the name of the program.
func browserOf() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

const longTokens = 32_768 // of the rollout

func newLook(measure func(*look, int) (float64, error)) func(*assignment) (task, error) {
	return func(a *assignment) (task, error) {
		path := browserOf()
		if path == "" {
			return nil, errors.New("there is no chromium-headless-shell to show the page in")
		}
		l := &look{dir: filepath.Join(a.Dir, "studio", "run000"), measure: measure}
		if err := writeStudioRuns(a.Dir, studioSize{runs: 1, steps: 100, metrics: 20}); err != nil {
			return nil, err
		}
		if err := writeLong(filepath.Join(l.dir, rundir.Traces)); err != nil {
			return nil, err
		}
		var err error
		if l.lock, err = durable.TakeLock(l.dir, trinity.RoleTrainer, "the benchmark"); err != nil {
			return nil, err
		}
		l.site = httptest.NewServer((&studio.Server{Dir: a.Dir}).Handler()).URL
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1100, 640))
		allocated, _ := chromedp.NewExecAllocator(context.Background(), options...) // ends with the process
		l.browser, _ = chromedp.NewContext(allocated)
		return l, chromedp.Do(l.browser, chromedp.Navigate(l.site))
	}
}

func (l *look) run(number int) (sample, error) {
	value, err := l.measure(l, number)
	return sample{Value: value}, err
}

// evaluate opens a page, does something else if it is told to, and returns what an expression in it, a promise, comes to.
func (l *look) evaluate(route string, do func() error, expression string) (float64, error) {
	ctx, end := context.WithTimeoutCause(l.browser, patience, fmt.Errorf("the page %s does not show what it should", route))
	defer end()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(l.site+"/#/"+route)); err != nil {
		return 0, errors.Join(err, context.Cause(ctx))
	}
	if do != nil {
		if err := do(); err != nil {
			return 0, err
		}
	}
	value, err := chromedp.Run(ctx, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
	return value, errors.Join(err, context.Cause(ctx))
}

// when is a promise of a value at the first frame in which a condition holds.
func when(condition, value string) string {
	return "new Promise(done => { const look = () => (" + condition + ") ? done(" + value + ") : requestAnimationFrame(look); look() })"
}

var longID = trinity.ExperienceID{Step: 1, Task: "long"}

// writeLong writes the trace of a step with one rollout.
func writeLong(dir string) error {
	e := trinity.Experience{ID: longID, PromptLen: promptSize, Temperature: 1, Reward: trinity.NewReward(map[string]float64{"accuracy": 1})}
	var u trinity.Update
	for t := range longTokens {
		p := -float32(t%97) / 50
		e.Tokens, e.Mask = append(e.Tokens, int32(t*7%5000)), append(e.Mask, t >= promptSize)
		e.Logprobs, e.OldLogprobs = append(e.Logprobs, p), append(e.OldLogprobs, p+.01)
		e.Advantages, e.Entropies = append(e.Advantages, .5), append(e.Entropies, -p)
		u.Now.Logprob, u.Grads.Logprob = append(u.Now.Logprob, p+.02), append(u.Grads.Logprob, -p)
	}
	var said error
	word := func(token int32) string { return " word" + strconv.Itoa(int(token)) }
	w, err := trace.New(trace.Options{Dir: dir, Text: word, Say: func(line string) { said = errors.New(line) }})
	if err != nil {
		return err
	}
	w.Trained(trinity.Trained{Step: 1, Experiences: []trinity.TrainedExperience{{Experience: e, Updates: []trinity.Update{u}}}})
	return errors.Join(w.Close(), said)
}

const runName = "studio%2Frun000"

func longRoute() string {
	return "tokens?run=" + runName + "&step=1&rollout=" + url.QueryEscape(longID.String())
}

const tokensShown = `document.querySelector(".lines")?.innerText.includes("word")`

// paint returns the milliseconds from the navigation to the first frame with tokens.
func paint(l *look, _ int) (float64, error) {
	return l.evaluate(longRoute(), nil, when(tokensShown, "performance.now()"))
}

// scroll returns frames a second while the tokens scroll by 300 pixels a frame, for two seconds.
func scroll(l *look, _ int) (float64, error) {
	return l.evaluate(longRoute(), nil, when(tokensShown, `new Promise(done => {
		const box = document.querySelector(".lines"), start = performance.now()
		let frames = 0
		const move = () => {
			box.scrollTop += 300
			const time = performance.now() - start
			frames++
			time < 2000 ? requestAnimationFrame(move) : done(1000 * frames / time)
		}
		requestAnimationFrame(move)
	})`))
}

// live returns the milliseconds from the end of a write of a step to the frame that shows it. The page
// has been open for a second.
func live(l *look, number int) (float64, error) {
	value := fmt.Sprintf("0.%d7", 430+number) // the page shows no 0 at the end
	var written time.Time
	at, err := l.evaluate("curves?run="+runName+"&name=rollout%2Freward%2Fmean", func() error {
		time.Sleep(time.Second)
		file, err := os.OpenFile(filepath.Join(l.dir, "monitor", "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		now := time.Now().Format(time.RFC3339)
		_, err = fmt.Fprintf(file, `{"step":%d,"role":"explorer","time":%q,"metrics":{"rollout/reward/mean":%s}}`+"\n", 101+number, now, value)
		written = time.Now()
		return errors.Join(err, file.Close())
	}, when(fmt.Sprintf("document.body.innerText.includes(%q)", value), "Date.now()"))
	return at - float64(written.UnixMicro())/1000, err
}
