package reward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const ownRewards = `
import asyncio, os, threading, time
from trinity.common.rewards import RewardFn

together = threading.Barrier(8, timeout=60)

def number(completion, weight, scale=1):
    return scale * weight * len(completion)

async def meet(completion):
    await asyncio.to_thread(together.wait)
    return 1

def block(completion):
    together.wait()
    return 1

class Theirs(RewardFn):
    def __call__(self, response, truth, prompt):
        print("I print")
        return {"right": float(response == truth), "asked": float(prompt == "?")}

def hang(completion):
    time.sleep(1000 if completion == "a" else 0)

def die(completion):
    os._exit(3)

def slow(completion):
    raise TimeoutError("no answer of the service")

def wrong(completion):
    raise ValueError("odd")

def longest(completions, **columns):
    lengths = [len(c[0]["content"]) for c in completions]
    return [None if n == min(lengths) else n for n in lengths]

def die_at(completion):
    if completion == "die":
        os._exit(3)
    time.sleep(0.05)
    return 1

def pid(completion):
    return os.getpid()
`

// own returns the arguments for a function of ownRewards.
func own(t *testing.T, name string, section map[string]any, args map[string]any) map[string]any {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own_rewards.py"), []byte(ownRewards), 0o644); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"path": []any{dir}}
	for key, value := range section {
		all[key] = value
	}
	if args == nil {
		args = map[string]any{}
	}
	return map[string]any{"class": "own_rewards." + name, "args": args, "python": all}
}

func TestFunctionsInPython(t *testing.T) {
	host := newOpener(t)
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"number", nil, "0.5 map[]"},
		{"number", map[string]any{"scale": 3}, "1.5 map[]"},
		{"number", map[string]any{"weight": 2}, "4 map[]"},
		{"Theirs", nil, "2 map[asked:1 right:1]"},
	} {
		in := asked(host, "ab")
		in.Truth = "ab"
		r, err := build(t, "python", own(t, c.name, nil, c.args)).Score(t.Context(), in)
		if got := fmt.Sprint(r.Value, r.Parts); err != nil || !r.Valid || got != c.want {
			t.Errorf("%s %v: %s, %v, want %s", c.name, c.args, got, err, c.want)
		}
	}
	host.close()
	if text := host.log.String(); text != "step 0, taskset/0: I print\n" {
		t.Errorf("the log has %q", text)
	}
}

// A function of TRL gets the replies of a group together.
func TestPythonScoresAGroup(t *testing.T) {
	bridge.Allow(func(string) {})
	host := newOpener(t)
	group := build(t, "python", own(t, "longest", nil, nil)).(trinity.GroupReward)
	rewards, err := group.ScoreGroup(t.Context(), []trinity.RewardInput{asked(host, "a"), asked(host, "abc"), asked(host, "ab")})
	if err != nil || len(rewards) != 3 || rewards[0].Valid || rewards[1].Value != 3 || rewards[2].Value != 2 {
		t.Error(rewards, err)
	}
	if _, ok := build(t, "python", own(t, "pid", nil, nil)).(trinity.GroupReward); ok {
		t.Error("a function of one reply scores groups")
	}
}

// Eight replies are scored at once by one process, by coroutines and by threads.
func TestPythonScoresTogether(t *testing.T) {
	for _, name := range []string{"meet", "block"} {
		host := newOpener(t)
		reward := build(t, "python", own(t, name, nil, nil))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if r, err := reward.Score(t.Context(), asked(host, "a")); err != nil || r.Value != 1 {
					t.Errorf("%s: %v, %v", name, r, err)
				}
			})
		}
		all.Wait()
	}
}

// What a function does wrong fails the reply alone, with its place. It is never reward 0.
func TestPythonFails(t *testing.T) {
	t.Setenv("TRINITY_PYTHON", "python3")
	for name, want := range map[string]struct {
		kind trinity.FailureKind
		says string
	}{
		"wrong": {trinity.FailedReward, "own_rewards.wrong: ValueError: odd; own_rewards.py:33 in wrong"},
		"slow":  {trinity.FailedTimeout, "own_rewards.slow: TimeoutError: no answer of the service; own_rewards.py:30 in slow"},
		"die": {trinity.FailedReward,
			"own_rewards.die: python3: the program ended before it answered: exit status 3 (log/plugins.log has what it printed)"},
		"hang": {trinity.FailedTimeout, "own_rewards.hang: no answer within timeout = 0.5 s; it stands at own_rewards.py:24 in hang"},
	} {
		host := newOpener(t)
		args := own(t, name, nil, nil)
		args["timeout"] = 0.5
		if name == "hang" { // whose import is behind it
			if _, err := build(t, "python", args).Score(t.Context(), asked(host, "b")); err != nil {
				t.Fatal(err)
			}
		}
		r, err := build(t, "python", args).Score(t.Context(), asked(host, "a"))
		if err == nil || r.Valid || err.Error() != want.says || trinity.KindOf(err, trinity.FailedReward) != want.kind {
			t.Errorf("%s: %v, %v of kind %s, want %s", name, r, err, trinity.KindOf(err, trinity.FailedReward), want.says)
		}
		if name == "wrong" {
			host.close()
			if text := host.log.String(); !strings.Contains(text, "Traceback") || !strings.Contains(text, `raise ValueError("odd")`) {
				t.Errorf("the log has %q", text)
			}
		}
	}
}

// A reply that ends the process fails alone.
func TestPythonFailsTheOneThatKillsIt(t *testing.T) {
	host := newOpener(t)
	reward := build(t, "python", own(t, "die_at", nil, nil))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			text := "a"
			if i == 5 {
				text = "die"
			}
			if r, err := reward.Score(t.Context(), asked(host, text)); (err != nil) != (i == 5) || r.Valid == (i == 5) {
				t.Errorf("reply %d: %v, %v", i, r, err)
			}
		})
	}
	all.Wait()
}

// The deadline of a rollout ends the wait, and the process goes on with other replies.
func TestPythonGoesOn(t *testing.T) {
	host := newOpener(t)
	args := own(t, "hang", nil, nil)
	hang := build(t, "python", args)
	number := build(t, "python", map[string]any{"class": "own_rewards.pid", "python": args["python"]})
	before, err := number.Score(t.Context(), asked(host, "a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	_, err = hang.Score(ctx, asked(host, "a"))
	if err == nil || !strings.Contains(err.Error(), "enough; it stands at own_rewards.py:24 in hang") {
		t.Error(err)
	}
	if after, err := number.Score(t.Context(), asked(host, "a")); err != nil || after.Value != before.Value {
		t.Errorf("%v, %v, want the process %v", after, err, before.Value)
	}
}

func TestPythonIsChecked(t *testing.T) {
	bridge.Allow(func(string) {})
	for _, c := range []struct {
		args map[string]any
		key  string
		want string
	}{
		{own(t, "nothing", nil, nil), "class",
			"own_rewards has no nothing: it has Theirs, block, die, die_at, hang, longest, meet, number, pid, slow, wrong"},
		{own(t, "number", nil, map[string]any{"wieght": 1}), "args.wieght",
			`own_rewards.number has no argument wieght (did you mean "weight"?)`},
		{own(t, "number", map[string]any{"interpreter": "python9"}, nil), "class",
			"there is no Python python9: install it, or set python.interpreter"},
	} {
		errs := registry.Rewards.Check("python", c.args)
		if len(errs) != 1 || errs[0].Key != c.key || errs[0].Message != c.want {
			t.Errorf("%v, want %s: %s", errs, c.key, c.want)
		}
	}
}
