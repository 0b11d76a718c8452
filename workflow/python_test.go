package workflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const ownFlows = `
import asyncio, os, subprocess, sys, threading, time
from trinity.common.workflows import Task, Workflow

def agent(task, model, bonus=0):
    reply = model.chat(task.prompt)
    return len(reply) + bonus

async def later(task, model):
    reply = await model.chat([{"role": "user", "content": task.row["q"]["text"]}])
    return {"length": len(reply), "seed": task.seed}

def limited(task, model, max_calls=3):
    return 1

def nothing(task, model):
    model.chat(task.prompt)

def nan(task, model):
    model.chat(task.prompt)
    return float("nan")

def asleep(task, model):
    return 1.0

def wrong(task, model):
    model.chat(task.prompt)
    raise ValueError("odd")

def unreachable(task, model):
    raise ConnectionError("no route")

def wild(task, model):
    os.write(1, b"{}\n")
    print("I print")
    print('{"id": 1}', file=sys.__stdout__, flush=True)
    return agent(task, model)

async def hang(task, model):
    await asyncio.sleep(1000)

def stuck(task, model, mark):
    with open(mark, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(1000)

def parent(task, model, mark):
    child = subprocess.Popen(["sleep", "1000"])
    with open(mark + ".new", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename(mark + ".new", mark)
    time.sleep(1000)

def gate(task, model, mark):
    model.chat(task.prompt)
    end = time.monotonic() + 60
    while not os.path.exists(mark):
        if time.monotonic() > end:
            raise TimeoutError("the run takes this for an import")
        time.sleep(0.01)
    return 1.0

def pid(task, model):
    model.chat(task.prompt)
    return os.getpid()

def tags(tasks=None, *, task, model):
    return [len(text) for text in model.chat(task.prompt, n=3)]

class Whole(Workflow):
    """Asks twice, and learns both replies."""

    def run(self):
        messages = []
        for text in (self.task.task_desc, "And?"):
            messages.append({"role": "user", "content": text})
            reply = self.model.chat(messages)[0]
            messages.append({"role": "assistant", "content": reply.response_text})
        whole = self.model.convert_messages_to_experience(messages)
        whole.reward = 1.0
        return [whole]

class Half(Whole):
    """Learns the first token of each reply."""

    def run(self):
        (whole,) = super().run()
        learns = True
        for i, own in enumerate(whole.action_mask):
            whole.action_mask[i], learns = bool(own) and learns, not own
        whole.reward, whole.info, whole.metrics = 0.5, {"truth": self.task.truth}, {"mine": 2}
        return [whole]

class Silent(Workflow):
    def run(self):
        self.model.chat([{"role": "user", "content": "?"}])
        return []

class Unscored(Workflow):
    is_async = True

    async def run_async(self):
        return await self.model.chat_async([{"role": "user", "content": "?"}])

class Counting(Workflow):
    """Counts what it is used for."""

    can_reset = True
    made = 0

    def __init__(self, *, task, model, auxiliary_models=None):
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        Counting.made += 1

    def reset(self, task):
        self.task = task

    def run(self):
        (reply,) = self.model.chat([{"role": "user", "content": self.task.task_desc}])
        reply.reward = Counting.made
        return [reply]

class Ranking(Workflow):
    """Compares a group, of which it forgets the replies that are too short."""

    def set_repeat_times(self, repeat_times, run_id_base):
        self.repeat_times = repeat_times

    def run(self):
        replies = self.model.chat([{"role": "user", "content": self.task.task_desc}], n=self.repeat_times)
        for rank, reply in enumerate(sorted(replies, key=lambda e: len(e.response_text))):
            reply.reward = rank
        return [reply for reply in replies if len(reply.response_text) > 1]
`

// flows returns the arguments for a function or a class of ownFlows.
func flows(t *testing.T, name string, more map[string]any) map[string]any {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own_flows.py"), []byte(ownFlows), 0o600); err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"class": "own_flows." + name, "python": map[string]any{"path": []any{dir}}}
	for key, value := range more {
		args[key] = value
	}
	return args
}

// lineOf returns the number of a line of ownFlows.
func lineOf(t *testing.T, text string) int {
	t.Helper()
	lines := strings.Split(ownFlows, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == text {
			return i + 1
		}
	}
	t.Fatalf("no line %q", text)
	return 0
}

// gated is a host with a gateway. It keeps what workflows open until the test ends.
type gated struct {
	noHost
	gateway *gateway.Gateway

	mu   sync.Mutex
	open map[string]io.Closer
	log  pluginLog
}

func newGated(t *testing.T) *gated {
	s, server := openGated()
	t.Cleanup(func() {
		s.close()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

func openGated() (*gated, *httptest.Server) {
	s := &gated{open: map[string]io.Closer{}}
	server := httptest.NewUnstartedServer(nil)
	s.gateway = gateway.New("http://"+server.Listener.Addr().String(), "policy", trinitytest.CallingChat{}, 1<<20, s.Say)
	server.Config.Handler = s.gateway.Handler()
	server.Start()
	return s, server
}

func (s *gated) close() {
	for key, c := range s.open {
		c.Close()
		delete(s.open, key)
	}
}

func (s *gated) Open(key string, open func(io.Writer) (io.Closer, error)) (c io.Closer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] == nil {
		if c, err = open(&s.log); err != nil {
			return nil, err
		}
		s.open[key] = c
	}
	return s.open[key], nil
}

func (s *gated) Serve(ctx context.Context, m *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	return s.gateway.Open(ctx, m, o), nil
}

func (*gated) Say(string) {}

func (*gated) Wait(ctx context.Context, until func(context.Context) error) error { return until(ctx) }

// teller is a policy that says the seed of the call's rollout, as many letters.
type teller struct{ says string }

func (p teller) Sample(_ context.Context, _ trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	says := p.says
	if says == "" {
		says = strings.Repeat("x", int(params.Seed%5)+1)
	}
	c := trinity.Completion{
		Tokens: append(trinitytest.CallingChat{}.Encode(says), trinitytest.ChatEnd), FinishReason: "stop", Versions: [2]int64{3, 4},
	}
	for i := range c.Tokens {
		c.Logprobs = append(c.Logprobs, -float32(i+1)/8)
	}
	return []trinity.Completion{c}, nil
}

// onGated returns a rollout.
func onGated(s *gated, p trinity.Sampler, run int, reward trinity.RewardFunc) *trinity.Rollout {
	own := id
	own.Run = run
	params := trinity.SamplingParams{Temperature: 0.5, Seed: uint64(run)}
	m := &trinity.Model{Sampler: p, Renderer: trinitytest.CallingChat{}, ID: own, MaxModelLen: 1000, Params: params}
	t := task()
	t.GroupSize = 3
	return &trinity.Rollout{Task: t, Seed: 3, Model: m, Reward: reward, Host: s}
}

func TestFunctionsInPythonMakeRollouts(t *testing.T) {
	s := newGated(t)
	for _, c := range []struct {
		name   string
		args   map[string]any
		reward trinity.RewardFunc
		want   string
	}{
		{"agent", nil, nil, "4 map[]"},
		{"agent", map[string]any{"bonus": 2}, constant{}, "6 map[]"},
		{"later", nil, nil, "7 map[length:4 seed:3]"},
		{"nothing", nil, constant{}, "1 map[accuracy:1]"},
		{"wild", nil, nil, "4 map[]"},
	} {
		r := onGated(s, teller{"four"}, 0, c.reward)
		r.Task.Reward = "own"
		exps, err := build(t, "python", flows(t, c.name, map[string]any{"args": c.args, "own_reward": true})).Run(t.Context(), r)
		if err != nil || len(exps) != 1 {
			t.Errorf("%s: %v, %v", c.name, exps, err)
			continue
		}
		e := exps[0]
		if got := fmt.Sprint(e.Reward.Value, e.Reward.Parts); got != c.want || !e.Reward.Valid || e.Response != "four" || e.TrainedTokens() != 5 {
			t.Errorf("%s: %s, %+v; want %s", c.name, got, e, c.want)
		}
	}
	s.close()
	if text := s.log.String(); !strings.Contains(text, "step 2, taskset/5, run 0: I print\n") || !strings.Contains(text, `{"id": 1}`) {
		t.Errorf("the log has %q", text)
	}
}

// What a function or a class does wrong fails the rollout, with its place. It is never reward 0.
func TestFailuresOfWorkflowsInPython(t *testing.T) {
	at := func(text, name string) string { return fmt.Sprintf("own_flows.py:%d in %s", lineOf(t, text), name) }
	for name, want := range map[string]struct {
		kind  trinity.FailureKind
		final bool
		says  string
	}{
		"wrong": {trinity.FailedAgent, true, "own_flows.wrong: ValueError: odd; " + at(`raise ValueError("odd")`, "wrong")},
		"unreachable": {
			trinity.FailedEnvironment, false,
			"own_flows.unreachable: ConnectionError: no route; " + at(`raise ConnectionError("no route")`, "unreachable"),
		},
		"nothing":  {trinity.FailedReward, true, "own_flows.nothing: it returned None: want a number, a dict of numbers, or experiences"},
		"nan":      {trinity.FailedReward, true, "own_flows.nan: it returned nan: want a number, a dict of numbers, or experiences"},
		"asleep":   {trinity.FailedAgent, false, "the program received no reply of the policy, of 0 calls: it must ask by model.chat"},
		"Silent":   {trinity.FailedAgent, true, "own_flows.Silent: it returned no experience"},
		"Unscored": {trinity.FailedReward, true, "own_flows.Unscored: the reward of experience 0 is None, which is no number"},
	} {
		s := newGated(t)
		exps, err := build(t, "python", flows(t, name, nil)).Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
		failed := (*trinity.RolloutError)(nil)
		if !errors.As(err, &failed) || failed.Kind != want.kind || failed.Final != want.final || !strings.HasPrefix(err.Error(), want.says) {
			t.Errorf("%s: %v, %+v: %v; want %s", name, exps, failed, err, want.says)
		}
		if name == "wrong" {
			s.close()
			if text := s.log.String(); !strings.Contains(text, "Traceback") || !strings.Contains(text, `raise ValueError("odd")`) {
				t.Errorf("the log has %q", text)
			}
		}
	}
}

// The failure of a rollout with tools names what users have written of it.
func TestFailuresOfToolsNameThem(t *testing.T) {
	for _, c := range []struct {
		class string
		args  map[string]any
		want  string
	}{
		{"own.Walk", map[string]any{"tools": []any{"own.look"}}, "own.Walk"},
		{"caller:trinity_go.tools.play", map[string]any{"tools": []any{"own.look", "caller:ask"}}, "own.look, caller:ask"},
		{"trinity_go.tools.play", map[string]any{"tools": []any{"own.look"}, "environment": "own.Maze"}, "own.Maze"},
		{"trinity_go.tools.play", nil, "trinity_go.tools.play"},
	} {
		p := &pythonWorkflow{Class: c.class, Args: c.args}
		if got := p.failure(t.Context(), errors.New("odd")).Error(); got != c.want+": odd" {
			t.Errorf("%s %v: %s, want %s", c.class, c.args, got, c.want)
		}
	}
}

// A class says which of the sampled tokens are learnt.
func TestAWorkflowOfTrinityRFTMasks(t *testing.T) {
	r := onGated(newGated(t), teller{"four"}, 0, constant{})
	exps, err := build(t, "python", flows(t, "Half", nil)).Run(t.Context(), r)
	if err != nil || len(exps) != 1 {
		t.Fatal(exps, err)
	}
	e := exps[0]
	var learnt []int32
	for i, own := range e.Mask {
		if own {
			learnt = append(learnt, e.Tokens[i])
		}
	}
	if first := e.Tokens[e.PromptLen]; !slices.Equal(learnt, []int32{first, first}) {
		t.Errorf("learnt %v, want %d twice", learnt, first)
	}
	if e.Reward.Value != 0.5 || len(e.Reward.Parts) > 0 || !reflect.DeepEqual(e.Info, map[string]any{"truth": 5.0}) || e.Metrics["mine"] != 2 {
		t.Errorf("%+v, info %v, metrics %v", e.Reward, e.Info, e.Metrics)
	}
}

// An instance is used again if nobody else uses it.
func TestAWorkflowOfTrinityRFTIsReset(t *testing.T) {
	s, w := newGated(t), build(t, "python", flows(t, "Counting", nil))
	for range 3 {
		exps, err := w.Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
		if err != nil || exps[0].Reward.Value != 1 {
			t.Fatal(exps, err)
		}
	}
}

// Reply i of a group is that of rollout i.
func TestAGroupInPython(t *testing.T) {
	s := newGated(t)
	group := func() (all []*trinity.Rollout) {
		for run := range 3 {
			all = append(all, onGated(s, teller{}, run, nil)) // which says run+1 letters
		}
		return all
	}
	run := func(name string) ([][]*trinity.Experience, error) {
		w := build(t, "python", flows(t, name, map[string]any{"group": true}))
		return trinity.RequirementsOf(w).RunGroup(t.Context(), group())
	}
	exps, err := run("tags")
	if err != nil || len(exps) != 3 {
		t.Fatal(exps, err)
	}
	for i, own := range exps {
		if len(own) != 1 || own[0].ID.Run != i || own[0].Reward.Value != float64(len(own[0].Response)) {
			t.Errorf("rollout %d: %+v", i, own)
		}
	}
	if exps[0][0].Response == exps[1][0].Response {
		t.Errorf("equal replies %q", exps[0][0].Response)
	}
	short := slices.IndexFunc(exps, func(own []*trinity.Experience) bool { return own[0].Response == "x" })
	ranked, err := run("Ranking")
	for i, own := range ranked {
		if (i == short) != (len(own) == 0) {
			t.Errorf("rollout %d: %+v", i, own)
		}
	}
	if want := "own_flows.Ranking returned no experience of this rollout"; (short >= 0) != (err != nil) || err != nil && err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// unhurried is a host that opens a gate once nothing is waited for any more that does not count.
type unhurried struct {
	*gated
	mark    string
	waiting atomic.Int32
	waited  atomic.Int32
}

func (u *unhurried) Wait(ctx context.Context, until func(context.Context) error) error {
	u.waiting.Add(1)
	err := until(ctx)
	if n := u.waited.Add(1); n == 2 && u.waiting.Load() == 2 && err == nil {
		err = os.WriteFile(u.mark, nil, 0o600)
	}
	return err
}

// The time of imports does not count against the deadline of a rollout, and the rollout's own does.
func TestImportsDoNotCountForARollout(t *testing.T) {
	u := &unhurried{gated: newGated(t), mark: filepath.Join(t.TempDir(), "mark")}
	r := onGated(u.gated, teller{"four"}, 0, nil)
	r.Host = u
	exps, err := build(t, "python", flows(t, "gate", map[string]any{"args": map[string]any{"mark": u.mark}})).Run(t.Context(), r)
	if err != nil || exps[0].Reward.Value != 1 {
		t.Error(exps, err)
	}
}

// The end of a rollout names the line at which it stands, and the process goes on.
func TestAWorkflowInPythonIsCancelled(t *testing.T) {
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("explorer.max_timeout passed")}
	s, mark := newGated(t), filepath.Join(t.TempDir(), "mark")
	args := flows(t, "pid", nil)
	before, err := build(t, "python", args).Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args map[string]any
		says string
	}{
		"hang":  {nil, fmt.Sprintf("it stands at own_flows.py:%d in hang", lineOf(t, "await asyncio.sleep(1000)"))},
		"stuck": {map[string]any{"mark": mark}, fmt.Sprintf("it stands at own_flows.py:%d in stuck", lineOf(t, "time.sleep(1000)"))},
	} {
		w := build(t, "python", map[string]any{"class": "own_flows." + name, "args": c.args, "python": args["python"]})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(late) })
		_, err := w.Run(ctx, onGated(s, teller{"four"}, 0, nil))
		if kindOf(err) != trinity.FailedTimeout || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	after, err := build(t, "python", args).Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
	if err != nil || after[0].Reward.Value != before[0].Reward.Value {
		t.Errorf("%v, %v: another process", after, err)
	}
}

// A process that is killed fails its rollouts, which are not asked again, and the next one has another process.
func TestAWorkerOfPythonIsKilled(t *testing.T) {
	s, mark := newGated(t), filepath.Join(t.TempDir(), "mark")
	args := flows(t, "stuck", map[string]any{"args": map[string]any{"mark": mark}})
	w := build(t, "python", args)
	const many = 64
	failed := make(chan error, many)
	for run := range many {
		go func() {
			_, err := w.Run(t.Context(), onGated(s, teller{"four"}, run, nil))
			failed <- err
		}()
	}
	var pids []string
	for end := time.Now().Add(time.Minute); len(pids) < many; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d rollouts have begun", len(pids), many)
		}
		text, _ := os.ReadFile(mark)
		pids = strings.Fields(string(text))
	}
	process, err := strconv.Atoi(pids[0])
	if err != nil || len(slices.Compact(pids)) != 1 {
		t.Fatal(pids, err)
	}
	if running, err := os.FindProcess(process); err != nil || running.Kill() != nil {
		t.Fatal(err)
	}
	const ended = ": the program ended before it answered: "
	for range many {
		if err := <-failed; kindOf(err) != trinity.FailedAgent || !strings.Contains(fmt.Sprint(err), ended) ||
			strings.Contains(err.Error(), "task.seed") {
			t.Errorf("error %v", err)
		}
	}
	const notice = "up to 64 rollouts are in flight in a process: task.seed is the only seed of theirs. "
	if text := s.log.String(); strings.Count(text, notice) != 1 {
		t.Errorf("the log has %q, want once %q", text, notice)
	}
	again := build(t, "python", map[string]any{"class": "own_flows.pid", "python": args["python"]})
	exps, err := again.Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
	if err != nil || exps[0].Reward.Value == float64(process) {
		t.Errorf("%v, %v", exps, err)
	}
}

func TestWorkflowsInPythonAreChecked(t *testing.T) {
	bridge.Allow(func(string) {})
	for _, c := range []struct{ name, key, want string }{
		{"nowhere", "class", "own_flows has no nowhere: it has Counting, Half, Ranking, Silent, Unscored, Whole, agent, asleep, gate, hang, " +
			"later, limited, nan, nothing, parent, pid, stuck, tags, unreachable, wild, 1 more"},
		{"stuck", "class", "own_flows.stuck takes mark, which is nothing of the run (task, model, auxiliary_models): set it in workflow_args"},
		{"Task", "class", "own_flows.Task has no method run, which makes a rollout"},
	} {
		errs := registry.Workflows.Check("python", flows(t, c.name, nil))
		if len(errs) != 1 || errs[0].Key != c.key || errs[0].Message != c.want {
			t.Errorf("%v, want %s: %s", errs, c.key, c.want)
		}
	}
	for _, c := range []struct {
		args  map[string]any
		fails bool
	}{
		{nil, false},
		{map[string]any{"max_calls": 5}, true},
		{map[string]any{"max_calls": 5, "args": map[string]any{"max_calls": 4}}, false},
		{map[string]any{"steps": true}, false},
	} {
		errs := registry.Workflows.Check("python", flows(t, "limited", c.args))
		fails := len(errs) == 1 && errs[0].Key == "max_calls" && strings.Contains(errs[0].Message, "args: {max_calls: …}")
		if fails != c.fails || len(errs) > 1 {
			t.Errorf("%v: %v", c.args, errs)
		}
	}
	wrong := flows(t, "agent", map[string]any{"args": map[string]any{"bonsu": 1}})
	if errs := registry.Workflows.Check("python", wrong); len(errs) != 1 || errs[0].Key != "args.bonsu" {
		t.Error(errs)
	}
}

func TestPythonConforms(t *testing.T) {
	for _, name := range []string{"agent", "later", "Whole"} {
		o := trinitytest.WorkflowOptions{
			Task: task(), Says: []string{"5", "It is 5.", "<think>2 and 3</think>\\boxed{5}", "7"}, Host: newGated(t),
		}
		t.Run(name, func(t *testing.T) { trinitytest.Workflow(t, o, build(t, "python", flows(t, name, nil))) })
	}
}

// runsPython lets this binary be a run, whose rollout does not end. flowsFolder names the folder of ownFlows.
const runsPython, flowsFolder = "run python", "TRINITY_TEST_FLOWS"

func runPython() int {
	s, _ := openGated()
	w, err := registry.Workflows.Build("python", map[string]any{
		"class": "own_flows.parent", "args": map[string]any{"mark": os.Getenv(markFile)},
		"python": map[string]any{"path": []any{os.Getenv(flowsFolder)}},
	})
	if err == nil {
		_, err = w.Run(context.Background(), onGated(s, teller{"four"}, 0, nil))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A run that is killed leaves no Python, nor what that has started.
func TestAKilledRunLeavesNoPython(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	mark := filepath.Join(t.TempDir(), "mark")
	folder := flows(t, "parent", nil)["python"].(map[string]any)["path"].([]any)[0].(string)
	run := exec.CommandContext(t.Context(), os.Args[0])
	run.Env = append(os.Environ(), childWorker+"="+runsPython, markFile+"="+mark, flowsFolder+"="+folder)
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	end, pids := time.Now().Add(time.Minute), []string{}
	for ; len(pids) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the rollout has not begun")
		}
		text, _ := os.ReadFile(mark)
		pids = strings.Fields(string(text))
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	for _, pid := range pids {
		for isAlive(pid) {
			if time.Sleep(10 * time.Millisecond); time.Now().After(end) {
				t.Fatalf("process %s of %v runs", pid, pids)
			}
		}
	}
}

// isAlive reports whether a process runs. One that is dead and that nobody has waited for does not.
func isAlive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}
