package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("code_reward",
		"The share of a row's tests that the program in a reply passes. The program is the last code block of the language, or the whole "+
			"reply if there is none. It runs in a sandbox, anew for each test, and never sees what a test expects. The row's tests are a list "+
			"of {input, output} for standard input and output, an object {inputs, outputs} of two lists, or, in Python, a list of assert "+
			"statements; with fn_name, as rows of LiveCodeBench, TACO and PRIME have it, input and output are the arguments and the value of that "+
			"function or method of class Solution. A program that does not compile gets 0. After a test that runs out of time the others count as "+
			"failed. If the sandbox fails, or a test expects no plain value, the reply has no valid reward. Part: tests.",
		func() trinity.RewardFunc {
			return &code{Language: "python", TestsKey: "tests", Timeout: 10, CompileTimeout: 60, MaxMemory: 512, Isolation: string(sandbox.Full)}
		})
}

// code runs programs that a model wrote.
type code struct {
	Language       string   `yaml:"language" enum:"python|go|javascript|cpp|bash" doc:"of the reply"`
	TestsKey       string   `yaml:"tests_key" required:"name the column of the tests" doc:"key of the tests in the row"`
	Timeout        float64  `yaml:"timeout" range:"(0,3600]" doc:"seconds of CPU for each test; the clock may show three times as many"`
	Tolerance      float64  `yaml:"tolerance" range:"[0,1)" doc:"how far a float may be from the expected one, as a share beyond 1"`
	CompileTimeout float64  `yaml:"compile_timeout" range:"(0,3600]" doc:"seconds of CPU for the compiler"`
	MaxMemory      int      `yaml:"max_memory_mb" range:"[32,1048576]" doc:"MiB for the program"`
	Isolation      string   `yaml:"isolation" enum:"full|best|none" doc:"best is what works on this machine; trinity doctor lists the layers"`
	Read           []string `yaml:"read" doc:"folders that the program may read beside the system's, such as one of a Python environment"`

	box  *sandbox.Sandbox
	told sync.Once // guards the line about what the isolation lacks
}

// Validate checks the arguments, and that this machine has the isolation.
func (c *code) Validate() (err error) {
	if err := sandbox.CheckRead(c.Read); err != nil {
		return err
	}
	c.box, err = sandbox.New(sandbox.Isolation(c.Isolation))
	return err
}

// Requires implements [trinity.Requirer].
func (c *code) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := c.tests(t)
		return err
	}}
}

// Score implements [trinity.RewardFunc].
func (c *code) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if c.box == nil {
		return trinity.Reward{}, errors.New("the reward was not built from its arguments")
	}
	tests, err := c.tests(in.Task)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	if lacks := c.box.Lacks(); len(lacks) > 0 && in.Host != nil {
		c.told.Do(func() {
			in.Host.Say(fmt.Sprintf("code_reward: isolation %s runs programs without %s", c.Isolation, strings.Join(lacks, ", ")))
		})
	}
	of, language := codeRun{args: c, host: in.Host}, languages[c.Language]
	passed, open := 0, ""
	source := language.extract(in.Response)
	if tests.asked != nil {
		passed, open, err = of.answers(ctx, source, tests.asked)
	} else {
		passed, err = of.exchanges(ctx, language, source, tests.exchanges)
	}
	if err != nil {
		return trinity.Reward{}, err
	}
	if open != "" {
		return trinity.InvalidReward(open), nil
	}
	return trinity.NewReward(map[string]float64{"tests": float64(passed) / float64(tests.count())}), nil
}

// codeRun is the scoring of one reply.
type codeRun struct {
	args *code
	host trinity.Host
}

// codeSlots bounds the programs that run at once, because one that waits for a core may run out of
// time.
var codeSlots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// run runs a program in the sandbox for some seconds of CPU.
func (c *codeRun) run(ctx context.Context, p sandbox.Program, seconds float64) (r sandbox.Result, err error) {
	select {
	case codeSlots <- struct{}{}:
		defer func() { <-codeSlots }()
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	p.Read = append(p.Read, c.args.Read...)
	p.Limits.CPU = max(time.Second, time.Duration(math.Ceil(seconds))*time.Second)
	p.Limits.Wall = wait.Seconds(3 * seconds)
	r, err = c.args.box.Run(ctx, &p)
	if err != nil && ctx.Err() == nil {
		err = &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: err}
	}
	return r, err
}

// exchanges returns how many tests of standard input and output the program passes.
func (c *codeRun) exchanges(ctx context.Context, lang language, source string, tests []exchange) (passed int, err error) {
	p := sandbox.Program{Command: lang.command, Files: map[string][]byte{lang.file: []byte(source)}, Env: lang.env}
	if lang.compile != nil {
		built, err := lang.compile(ctx, c, p)
		if built == nil || err != nil {
			return 0, err
		}
		p = sandbox.Program{Command: []string{"./program"}, Files: map[string][]byte{"program": built}}
	}
	p.Limits.Memory = int64(c.args.MaxMemory) << 20
	for _, test := range tests {
		p.Stdin = []byte(test.input)
		p.Limits.Output = int64(2*len(test.output) + 64<<10)
		r, err := c.run(ctx, p, c.args.Timeout)
		switch {
		case err != nil:
			return 0, err
		case r.TimedOut:
			return passed, nil
		case r.ExitCode == 0 && !r.Truncated && c.args.printed(string(r.Stdout), test.output):
			passed++
		}
	}
	return passed, nil
}

// printed reports whether an output is the expected one. With a tolerance, numbers may differ.
func (c *code) printed(output, want string) bool {
	output, want = settled(output), settled(want)
	if output == want || c.Tolerance == 0 {
		return output == want
	}
	return slices.EqualFunc(strings.Split(output, "\n"), strings.Split(want, "\n"), func(line, wanted string) bool {
		return slices.EqualFunc(strings.Fields(line), strings.Fields(wanted), c.near)
	})
}

// decimal matches a number as programs print it; its groups are not empty for a float.
var decimal = regexp.MustCompile(`^[-+]?(?:\d+(\.\d*)?|(\.\d+))([eE][-+]?\d+)?$`)

// near reports whether a printed word is the expected one. Numbers may differ by the tolerance if one
// of them is a float, and by that share of the expected number if it is a float beyond 1.
func (c *code) near(word, want string) bool {
	got, wanted := decimal.FindStringSubmatch(word), decimal.FindStringSubmatch(want)
	if word == want || got == nil || wanted == nil {
		return word == want
	}
	isFloat := func(groups []string) bool { return strings.Join(groups[1:], "") != "" }
	a, errA := strconv.ParseFloat(word, 64)
	b, errB := strconv.ParseFloat(want, 64)
	if errA != nil || errB != nil || !isFloat(got) && !isFloat(wanted) {
		return false
	}
	most := c.Tolerance
	if isFloat(wanted) {
		most *= max(1, math.Abs(b))
	}
	return math.Abs(a-b) <= most
}

// settled returns an output without the spaces at the ends of its lines and the empty lines at its end.
func settled(output string) string {
	lines := strings.Split(output, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// fence is the beginning or the end of a code block.
var fence = regexp.MustCompile("(?m)^[ \t]*```[ \t]*([A-Za-z0-9_+#-]*)[^\n]*$")

// extract returns the last code block of the language, or without a language; a reply without code
// blocks is code.
func (l *language) extract(reply string) string {
	marks := fence.FindAllStringSubmatchIndex(reply, -1)
	found, source := false, ""
	for i := 0; i < len(marks); i += 2 {
		end := len(reply)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name := strings.ToLower(reply[marks[i][2]:marks[i][3]])
		if begin := min(marks[i][1]+1, end); name == "" || strings.Contains(l.names, " "+name+" ") {
			found, source = true, reply[begin:end]
		}
	}
	if !found && len(marks) == 0 {
		return reply
	}
	return source
}
