package environment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	for name, l := range map[string]programLanguage{
		"python": {
			title: "Python", file: "step.py", tags: []string{"python", "py", "python3"}, command: "python3", env: []string{"PYTHONHASHSEED=0"},
			main: "import contextlib, os\nscope = {'__name__': '__main__'}\ndef run(path):\n" +
				"    with open(path) as f: code = f.read()\n    exec(compile(code, path, 'exec'), scope)\n" +
				"with open(os.devnull, 'w') as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):\n" +
				"    for i in range({earlier}): run(f'{i}_step.py')\nrun('{earlier}_step.py')\n",
		},
		"bash": {
			title: "bash", file: "step.sh", tags: []string{"bash", "sh", "shell"}, command: "bash",
			main: "for ((i = 0; i < {earlier}; i++)); do . \"./${i}_step.sh\" >/dev/null 2>&1; done\n. ./{earlier}_step.sh\n",
		},
	} {
		registry.Environments.Register(name,
			"The policy writes programs in "+l.title+" between ``` and ```, each of which runs in a sandbox, and reads what they print. Those of "+
				"a row with a column files, an object of paths and texts, find these files. With keep a program goes on where those before it "+
				"that worked have ended: they run again, unheard. A reply without a program is the answer. Reward: that of the task's reward "+
				"function if it names one, else 1 if the last line of the answer is the reference answer, else 0. Words of the messages: "+
				"{question}, {output}, {steps} that are left. Metric: valid, the share of programs that end with status 0.",
			func() trinity.EnvironmentOpener {
				return &programs{language: l, MaxSteps: 8, Keep: true, Timeout: 10, MaxMemory: 512, MaxOutput: 2000,
					Isolation: string(sandbox.Full),
					Ask: "{question}\n\nYou may run programs in " + l.title + ": write one between ```" + l.tags[0] + " and ```, and you read " +
						"what it prints. A reply without a program is your answer; its last line has the answer alone.",
					Tell: "{output}"}
			})
	}
}

// programLanguage says how programs of a language run.
type programLanguage struct {
	title, command, file string
	tags                 []string // after the ``` before a program
	env                  []string // that makes equal programs print the same
	main                 string   // runs the steps before this one unheard, and then this one
}

// programs runs programs that the policy writes.
type programs struct {
	MaxSteps  int      `yaml:"max_steps" range:"[1,)" doc:"replies at most; then the episode is truncated"`
	Keep      bool     `yaml:"keep" doc:"keep variables, functions and files from one program to the next"`
	Timeout   float64  `yaml:"timeout" range:"(0,3600]" doc:"seconds of CPU for each program; the clock may show three times as many"`
	MaxMemory int      `yaml:"max_memory_mb" range:"[32,1048576]" doc:"MiB for a program"`
	MaxOutput int      `yaml:"max_output" range:"[100,)" doc:"bytes of output that the policy reads; the middle of more is left out"`
	Isolation string   `yaml:"isolation" enum:"full|best|none" doc:"best takes what works on this machine; trinity doctor lists the layers"`
	Read      []string `yaml:"read" doc:"folders that programs may read beside the system's, such as one of a Python environment"`
	Ask       string   `yaml:"ask" doc:"first message to the policy"`
	Tell      string   `yaml:"tell" doc:"message after each program"`

	language programLanguage
	box      *sandbox.Sandbox
}

// Validate checks the arguments, and that this machine has the isolation.
func (p *programs) Validate() (err error) {
	if err := sandbox.CheckRead(p.Read); err != nil {
		return err
	}
	p.box, err = sandbox.New(sandbox.Isolation(p.Isolation))
	return err
}

// Requires implements [trinity.Requirer].
func (p *programs) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(p.filesOf)}
}

// filesOf returns the files of a task's row. It is an error if the row has no question.
func (p *programs) filesOf(t *trinity.Task) (map[string][]byte, error) {
	var texts map[string]string
	if err := columns(t, map[string]any{"files": &texts}); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for path, text := range texts {
		if !filepath.IsLocal(path) || strings.HasSuffix(path, p.language.file) {
			return nil, fmt.Errorf("column \"files\": %q is no path for a file of a task", path)
		}
		files[path] = []byte(text)
	}
	if _, err := t.Prompt(); err != nil {
		return nil, err
	}
	return files, checkQuestion(t)
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (p *programs) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	if p.box == nil {
		return nil, errors.New("the environment was not built from its arguments")
	}
	files, err := p.filesOf(t)
	return &programming{args: p, task: t, files: files}, err
}

// programming is one episode.
type programming struct {
	inMemory
	args         *programs
	task         *trinity.Task
	files        map[string][]byte
	worked       []string // programs that later ones go on with
	replies      int
	runs, zeroes int // programs, and those with status 0
	heard        string
}

// Reset implements [trinity.Environment].
func (p *programming) Reset(context.Context, uint64) (trinity.Observation, error) {
	p.worked, p.replies, p.runs, p.zeroes, p.heard = nil, 0, 0, 0, ""
	question, err := p.task.Prompt()
	return p.says(p.args.Ask, "{question}", question), err
}

func (p *programming) says(text string, words ...string) trinity.Observation {
	return says(text, "programs"+p.heard, append(words, "{steps}", strconv.Itoa(p.args.MaxSteps-p.replies))...)
}

// Step implements [trinity.Environment].
func (p *programming) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	p.replies++
	if !strings.Contains(a.Text, "```") {
		out.Done, out.Observation, out.Reward = true, p.says("Done."), rightAnswer(p.task, a.Text)
		return out, nil
	}
	output, err := p.run(ctx, fencedCode(a.Text, p.args.language.tags...))
	if err != nil {
		return out, err
	}
	out.Observation = p.says(p.args.Tell, "{output}", output)
	out.Metrics = map[string]float64{"valid": float64(p.zeroes) / float64(p.runs)}
	out.Truncated = p.replies == p.args.MaxSteps
	return out, nil
}

// checkQuestion returns an error if a task has no question, or reference answers that are no texts.
func checkQuestion(t *trinity.Task) error {
	if _, err := t.Messages(""); err != nil {
		return err
	}
	_, err := t.Truths()
	return err
}

// rightAnswer returns 1 if the last line of an answer is one of the task's reference answers, else 0,
// or nil if the task has none.
func rightAnswer(t *trinity.Task, answer string) *float64 {
	truths, err := t.Truths()
	if err != nil || len(truths) == 0 || strings.TrimSpace(truths[0]) == "" { // checkQuestion refuses the error
		return nil
	}
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	right := asNumber(slices.ContainsFunc(truths, func(truth string) bool { return last == strings.TrimSpace(truth) }))
	return &right
}

// programPlaces bounds the programs that run at once, because one that waits for a core may run out
// of time.
var programPlaces = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// run runs a program and returns what the policy reads of it.
func (p *programming) run(ctx context.Context, source string) (string, error) {
	earlier := strconv.Itoa(len(p.worked))
	program := sandbox.Program{
		Command: []string{p.args.language.command, "main_" + p.args.language.file},
		Files:   map[string][]byte{"main_" + p.args.language.file: []byte(strings.ReplaceAll(p.args.language.main, "{earlier}", earlier))},
		Env:     p.args.language.env,
		Read:    p.args.Read,
		Limits: sandbox.Limits{Memory: int64(p.args.MaxMemory) << 20, Wall: wait.Seconds(3 * p.args.Timeout),
			CPU: max(time.Second, time.Duration(math.Ceil(p.args.Timeout))*time.Second)},
	}
	for i, text := range append(p.worked[:len(p.worked):len(p.worked)], source) {
		program.Files[strconv.Itoa(i)+"_"+p.args.language.file] = []byte(text)
	}
	for path, data := range p.files {
		program.Files[path] = data
	}
	r, err := runIn(ctx, p.args.box, &program)
	if err != nil {
		return "", err
	}
	p.runs++
	p.heard += "\n" + source
	if r.ExitCode == 0 && !r.TimedOut && !r.Truncated {
		p.zeroes++
		if p.args.Keep {
			p.worked = append(p.worked, source)
		}
	}
	return endOf(r, p.args.MaxOutput), nil
}

// runIn runs a program in a sandbox when there is a place for it.
func runIn(ctx context.Context, box *sandbox.Sandbox, program *sandbox.Program) (r sandbox.Result, err error) {
	select {
	case programPlaces <- struct{}{}:
		defer func() { <-programPlaces }()
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	r, err = box.Run(ctx, program)
	if err != nil && ctx.Err() == nil {
		err = &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: err}
	}
	return r, err
}

// endOf returns what the policy reads of a program's end, with most bytes of its output.
func endOf(r sandbox.Result, most int) string {
	text := strings.TrimRight(string(r.Stdout)+string(r.Stderr), "\n")
	if len(text) > most {
		half := most / 2
		text = fmt.Sprintf("%s\n… %d bytes left out …\n%s",
			strings.ToValidUTF8(text[:half], ""), len(text)-2*half, strings.ToValidUTF8(text[len(text)-half:], ""))
	}
	text = strings.ToValidUTF8(text, "�")
	how := ""
	switch {
	case r.TimedOut:
		how = "(it ran out of time)"
	case r.Truncated:
		how = "(it printed too much)"
	case r.Signal != "":
		how = "(ended by signal " + r.Signal + ")"
	case r.ExitCode != 0:
		how = fmt.Sprintf("(exit status %d)", r.ExitCode)
	case text == "":
		how = "(no output)"
	}
	return strings.TrimSpace(text + "\n" + how)
}
