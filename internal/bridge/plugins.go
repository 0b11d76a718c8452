package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/python"
)

// Plugins are what runs the classes and functions that users have written in Python: the section python of a
// configuration, and an argument of the plug-ins that ask them.
type Plugins struct {
	// The Python that runs them.
	Interpreter string `yaml:"interpreter" doc:"Python that runs them. Empty is TRINITY_PYTHON, the one beside this program, or python3."`
	// Where they are.
	Path       []string `yaml:"path" doc:"Folders of modules. Empty is the configuration's folder and the working directory."`
	PluginDirs []string `yaml:"plugin_dirs" doc:"Folders whose modules register classes by name. Empty is TRINITY_PLUGIN_DIRS."`
	// How many processes run them, and how many calls each has in flight.
	Processes   int `yaml:"processes" default:"1" range:"[1,1024]" doc:"Copies of the process, for code that computes much."`
	Concurrency int `yaml:"concurrency" default:"64" range:"[1,4096]" doc:"Calls in flight in one process, coroutines or threads."`

	Env          map[string]string `yaml:"env" secret:"true" doc:"Environment variables besides those of the run."`
	MaxMemoryMb  int               `yaml:"max_memory_mb" range:"[0,)" doc:"MiB of address space of a process (Linux only); 0: no limit."`
	StartTimeout float64           `yaml:"start_timeout" default:"300" range:"(0,)" doc:"Seconds for the imports of a process."`
}

// DefaultPlugins returns the defaults of the section.
func DefaultPlugins() Plugins { return Plugins{Processes: 1, Concurrency: 64, StartTimeout: 300} }

// interpreter returns the Python to start.
func (p *Plugins) interpreter() string {
	if name := cmp.Or(p.Interpreter, os.Getenv("TRINITY_PYTHON")); name != "" {
		return name
	}
	if self, err := os.Executable(); err == nil { // pip has installed it into the environment
		for _, name := range []string{"python3", "python.exe"} {
			if beside := filepath.Join(filepath.Dir(self), name); isEnvironment(beside) {
				return beside
			}
		}
	}
	if runtime.GOOS == "windows" { // python3 is an alias of its shop there
		return "python.exe"
	}
	return "python3"
}

// isEnvironment reports whether a Python is that of a virtual environment.
func isEnvironment(path string) bool {
	_, err := os.Stat(path)
	_, of := os.Stat(filepath.Join(filepath.Dir(path), "..", "pyvenv.cfg"))
	return err == nil && of == nil
}

// Open returns a mux to processes that run the worker. log gets what they write to their standard error.
func (p *Plugins) Open(log io.Writer) (*process.Mux, error) {
	boot, modules, err := python.Plugins()
	if err != nil {
		return nil, err
	}
	options := map[string]any{
		"path": append([]string{}, p.Path...), "plugin_dirs": append([]string{}, p.PluginDirs...), "concurrency": p.Concurrency,
	}
	first, err := json.Marshal(map[string]any{"modules": modules, "options": options})
	if err != nil {
		return nil, err
	}
	args := process.Args{Command: []string{p.interpreter(), "-c", boot}, Env: p.Env, MaxMemory: p.MaxMemoryMb}
	if err := args.Validate(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("there is no Python %s: install it, or set python.interpreter", args.Command[0])
		}
		return nil, fmt.Errorf("python.interpreter %s: %w", args.Command[0], err)
	}
	program := args.Program()
	program.Stderr = log
	return process.NewMux(program, p.Processes, p.Concurrency, process.Lines{Most: maxLine, First: append(first, '\n')}), nil
}

const maxLine = 64 << 20 // bytes of an answer

// described are the newest answers of this process, because a check and the run behind it ask the same.
var described = struct {
	sync.Mutex
	by     map[string]*answered
	files  map[string]bool         // of users, which their imports have run
	failed map[string]bool         // modules of plugin_dirs, and why
	checks int                     // that go on: they share processes
	shared map[string]*process.Mux // by section

	registered map[string][]Described // by section, of the checks that go on
}{
	by: map[string]*answered{}, files: map[string]bool{}, failed: map[string]bool{}, shared: map[string]*process.Mux{},
	registered: map[string][]Described{},
}

// answered is an answer, or the question behind which others wait.
type answered struct {
	once func() (Described, error)
	at   time.Time // when it was given
}

// fresh is how long an answer counts: people change what it is about.
const fresh = 5 * time.Second

// allowed is set if code of users may run to describe itself, and says for what people wait then.
var allowed atomic.Pointer[func(line string)]

// Allow lets Describe run code of users. Only a command that somebody has given for the configuration allows it: who
// looks at a run of others, as in the studio, runs nothing of it. say tells that an import takes long.
func Allow(say func(line string)) { allowed.Store(&say) }

// Asks reports whether Describe runs code of users.
func Asks() bool { return allowed.Load() != nil }

// silence is how long people wait for an import before they are told.
const silence = 10 * time.Second

// Describe imports a class or a function in a process of its own, and checks the arguments of the configuration against
// those that it takes. kind is what the run asks of it, such as reward. The same question is asked once in a while.
func (p *Plugins) Describe(kind, name string, args map[string]any) (d Described, err error) {
	if allowed.Load() == nil {
		return d, nil
	}
	if runtime.GOOS != "linux" && p.MaxMemoryMb > 0 {
		return d, fmt.Errorf("python.max_memory_mb: not supported on %s: leave it out", runtime.GOOS)
	}
	question := map[string]any{"kind": kind, "name": name, "args": args}
	key, err := json.Marshal([]any{p, question})
	if err != nil {
		return d, err
	}
	described.Lock()
	maps.DeleteFunc(described.by, func(_ string, a *answered) bool { return !a.at.IsZero() && time.Since(a.at) > fresh })
	known := described.by[string(key)]
	if known == nil {
		known = &answered{}
		known.once = sync.OnceValues(func() (Described, error) {
			d, err := p.ask(name, question)
			described.Lock()
			known.at = time.Now()
			described.Unlock()
			p.imported(d.Files, d.Failed)
			return d, err
		})
		described.by[string(key)] = known
	}
	described.Unlock()
	return known.once()
}

// imported keeps which files of users an import has run, and says once which modules of plugin_dirs have failed.
func (p *Plugins) imported(files, failed []string) {
	described.Lock()
	for _, file := range files {
		described.files[file] = true
	}
	failed = slices.DeleteFunc(failed, func(why string) bool { return described.failed[why] })
	for _, why := range failed {
		described.failed[why] = true
	}
	described.Unlock()
	for _, why := range failed {
		(*allowed.Load())("python.plugin_dirs: " + p.hidden(why) + ": what it registers is not there")
	}
}

// ask lets a process describe a class or a function: one of its own, or that of the check that goes on.
func (p *Plugins) ask(name string, question map[string]any) (d Described, err error) {
	rest, mux, err := at(name)
	if mux == nil && err == nil {
		var done func()
		if mux, done, err = p.describer(); err == nil {
			defer done()
		}
	}
	if err != nil {
		return d, err
	}
	question["name"] = rest
	defer time.AfterFunc(silence, func() { (*allowed.Load())(p.waits(name)) }).Stop()
	var answer struct{ Is Described }
	err = mux.Ask(context.Background(), process.Question{
		Do: "describe", Body: question, Limit: wait.Seconds(p.StartTimeout), Late: func(bool) string { return p.late(name) },
	}, &answer)
	if told := (*process.ToldError)(nil); errors.As(err, &told) {
		err = &process.ToldError{Kind: told.Kind, Key: told.Key, Reason: p.hidden(told.Reason)}
	} else if err != nil {
		err = errors.New(p.hidden(err.Error()))
	}
	return answer.Is, err
}

// Check describes the class that a plug-in's arguments name, and checks the arguments that it takes. An error begins with
// the key that is wrong: that of an argument, or class.
func (p *Plugins) Check(kind, class string, args *map[string]any) (d Described, err error) {
	if class == "" {
		return d, nil // the tag required reports it
	}
	if *args == nil {
		*args = map[string]any{}
	}
	if d, err = p.Describe(kind, class, *args); err == nil {
		return d, nil
	}
	key := "class"
	if told := (*process.ToldError)(nil); errors.As(err, &told) && told.Key != "" {
		key = told.Key
	}
	return d, fmt.Errorf("%s: %w", key, err)
}

// minSecret is the least length of a secret, in bytes: a shorter one may be a part of any word.
const minSecret = 8

// hidden returns a text without the values of the section's variables, which may be secrets.
func (p *Plugins) hidden(text string) string {
	for _, value := range p.Env {
		if len(value) >= minSecret {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}

// keyless hides the keys of clients' environment variables.
var keyless = map[string]string{"OPENAI_API_KEY": "EMPTY", "ANTHROPIC_API_KEY": "EMPTY"}

// kept returns the mux of the section that the run keeps. Rollouts have one of their own: they wait for rewards in Python,
// which would wait for their places.
func (p *Plugins) kept(host trinity.Host, rollouts bool) (*process.Mux, error) {
	key, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	own := *p
	if rollouts { // what asks without the rollout's key must not ask with that of the environment
		own.Env = maps.Clone(keyless)
		maps.Copy(own.Env, p.Env)
	}
	kind := fmt.Sprintf("python, rollouts %t: %s", rollouts, key)
	opened, err := host.Open(kind, func(log io.Writer) (io.Closer, error) { return own.Open(log) })
	if err != nil {
		return nil, err
	}
	return opened.(*process.Mux), nil
}

// Question is what a plug-in asks about a class or a function of users.
type Question struct {
	Do, Name string
	Body     map[string]any // the question without the name
	Memory   *Memory        // of the instance that is asked; nil if the run keeps no state of it
	Timeout  float64        // seconds for an answer, besides those for imports; 0 sets none
	Rollouts bool           // it asks for rollouts, and once: what a process did that ended is done
}

// Rollouts returns how many questions for rollouts are in flight at most. In the caller's process others have the rest.
func (p *Plugins) Rollouts(class string) int {
	if _, mux, err := at(class); mux != nil && err == nil {
		return callersAtOnce / 2
	}
	return p.Processes * p.Concurrency
}

// Ask asks the processes of the section, which the run keeps, and once more if one ends instead of answering, unless the
// question is for rollouts. The failure of the user's code is a [process.ToldError].
func (p *Plugins) Ask(ctx context.Context, host trinity.Host, q Question, answer any) error {
	name, mux, err := at(q.Name)
	if mux == nil && err == nil {
		mux, err = p.kept(host, q.Rollouts)
	}
	if err != nil {
		return err
	}
	body := map[string]any{"name": name}
	maps.Copy(body, q.Body)
	if q.Memory != nil {
		body["instance"], answer = q.Memory.told(), &remembered{q.Memory, answer}
	}
	ask := process.Question{
		Do: q.Do, Body: body, About: q.Name, Limit: wait.Seconds(q.Timeout), Loading: wait.Seconds(p.StartTimeout),
		Late: func(isLoaded bool) string {
			if isLoaded {
				return fmt.Sprintf("no answer within timeout = %g s", q.Timeout)
			}
			return p.late(q.Name)
		},
		Waits: func() { host.Say(p.waits(q.Name)) }, Unhurried: host.Wait,
	}
	if err = mux.Ask(ctx, ask, answer); errors.Is(err, process.ErrEnded) && !q.Rollouts && ctx.Err() == nil {
		ask.Alone = true // which of those in flight ended it, nobody knows
		err = mux.Ask(ctx, ask, answer)
	}
	if errors.Is(err, process.ErrEnded) {
		err = fmt.Errorf("%s: %w (log/plugins.log has what it printed)", p.interpreter(), err)
	}
	return err
}

func (p *Plugins) late(name string) string {
	return fmt.Sprintf("no import of %s within python.start_timeout = %g s", name, p.StartTimeout)
}

func (p *Plugins) waits(name string) string {
	return fmt.Sprintf("waits for %s, which %s imports (python.start_timeout = %g s)", name, p.interpreter(), p.StartTimeout)
}
