package finetune

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
)

// Jobs run one after another: each owner asks for one turn, and has it for the oldest job.
func TestJobsTakeTurns(t *testing.T) {
	c := serve(t, "", nil)
	ids := map[string]string{}
	for i, name := range []string{"ann 1", "ann 2", "ann 3", "bob 1"} {
		owner, _, _ := strings.Cut(name, " ")
		id := c.order(owner, nil)
		ids[id] = name
		c.s.jobs[id].CreatedAt += int64(i) // within a second IDs decide
	}
	var checked []string
	for j := c.s.unchecked(); j != nil; j = c.s.unchecked() { // all are checked before one runs
		c.s.validate(t.Context(), j)
		checked = append(checked, ids[j.ID])
	}
	if want := []string{"ann 1", "bob 1", "ann 2", "ann 3"}; !slices.Equal(checked, want) {
		t.Errorf("checked are %q, want %q", checked, want)
	}
	c.run()
	for id, name := range ids {
		owner, _, _ := strings.Cut(name, " ")
		c.until(owner, id, "succeeded")
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "order"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range strings.Fields(string(text)) {
		got = append(got, ids[id])
	}
	bob := slices.Index(got, "bob 1")
	if ann := slices.Delete(slices.Clone(got), bob, bob+1); bob > 1 || !slices.Equal(ann, []string{"ann 1", "ann 2", "ann 3"}) {
		t.Errorf("%q", got)
	}
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	if got := fmt.Sprint(c.turns.charged); got != "map[ann:[45 0] bob:[15 0]]" {
		t.Errorf("charged are %s", got)
	}
}

// A client cannot change the configuration of its job, so it reads what it can do.
func TestLongRowsNameTheService(t *testing.T) {
	for _, long := range []*dataset.LengthError{{Tokens: 9, Limit: 8}, {Tokens: 9, Limit: 8, Prompt: true}} {
		got := inData("config.yaml:3:1: buffer.path: training.jsonl:2: " + long.Error()).Error()
		ours := strings.Contains(got, "the service's --max-model-len") && !strings.Contains(got, "raise it")
		if !strings.HasPrefix(got, "training_file: line 2: ") || !ours {
			t.Errorf("%q", got)
		}
	}
}

// A job whose turn is over waits for the next one, and is charged for each step once.
func TestTurnsEnd(t *testing.T) {
	was := looking
	looking = time.Millisecond
	t.Cleanup(func() { looking = was })
	c := serve(t, "", nil)
	c.write("run.hangs", "yes")
	c.turns.set("the key ann has used its tokens")
	id := c.order("ann", nil)
	c.run()
	waits := func() bool {
		list := c.good("ann", "GET", "fine_tuning/jobs/"+id+"/events", nil)["data"].([]any)
		return slices.ContainsFunc(list, func(e any) bool {
			return e.(map[string]any)["message"] == "The job waits: the key ann has used its tokens"
		})
	}
	for !waits() && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	c.turns.set("")
	c.write("run.hangs", "")
	c.until("ann", id, "succeeded")
	c.s.mu.Lock()
	j := c.s.jobs[id]
	c.s.mu.Unlock()
	c.s.charge(j, &turn{c.turns, "ann"})
	if c.turns.charged["ann"] != [2]int{15, 0} {
		t.Errorf("%v", c.turns.charged)
	}
	j.Charged, j.Method.Type = 1, "reinforcement"
	c.s.charge(j, &turn{c.turns, "bob"})
	if kept, err := readJobs(filepath.Join(c.dir, jobsDir)); err != nil || kept[id].Charged != 2 {
		t.Errorf("the next service would charge for the steps after %d again: %v", kept[id].Charged, err)
	}
	if c.turns.charged["bob"] != [2]int{8, 8} {
		t.Errorf("%v", c.turns.charged)
	}
}

// A job waits for a process of an earlier service that still does its run. It pauses if that does not end, and it can be
// paused meanwhile. It does not wait for one of another machine.
func TestJobsWaitForProcessesOfBefore(t *testing.T) {
	was := patience
	t.Cleanup(func() { patience = was })
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, "", nil)
	ran := func() string { text, _ := os.ReadFile(filepath.Join(c.dir, "order")); return string(text) }
	holds := func(id string, h durable.Held) {
		t.Helper()
		text, err := json.Marshal(h)
		if err == nil {
			err = os.MkdirAll(c.s.jobs[id].runDir(), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(c.s.jobs[id].runDir(), ".holder_trainer.json"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	held, elsewhere := c.order("ann", nil), c.order("bob", nil)
	holds(held, durable.Held{PID: other.Process.Pid, Host: host, Since: time.Now()})
	holds(elsewhere, durable.Held{PID: 1, Host: "another machine", Since: time.Now()})
	patience = 0
	stop := c.run()
	c.until("ann", held, "paused")
	c.until("bob", elsewhere, "succeeded")
	if events := fmt.Sprint(c.good("ann", "GET", "fine_tuning/jobs/"+held+"/events", nil)); !strings.Contains(events,
		fmt.Sprintf("because process %d on %s", other.Process.Pid, host)) {
		t.Error(events)
	}
	stop()
	patience = was
	c.run()
	c.good("ann", "POST", "fine_tuning/jobs/"+held+"/resume", nil)
	c.until("ann", held, "running")
	c.good("ann", "POST", "fine_tuning/jobs/"+held+"/pause", nil) // the other process does not end by it: it is not waited for
	c.until("ann", held, "paused")
	if strings.Contains(ran(), held) {
		t.Error("the paused job has run")
	}
	if err := os.Remove(filepath.Join(c.s.jobs[held].runDir(), ".holder_trainer.json")); err != nil {
		t.Fatal(err)
	}
	c.good("ann", "POST", "fine_tuning/jobs/"+held+"/resume", nil)
	c.until("ann", held, "succeeded")
}

// A job that was cancelled when its service ended has ended with it.
func TestCancelledJobsEndWithTheService(t *testing.T) {
	c := serve(t, "", nil)
	id := c.order("", nil)
	j := c.s.jobs[id]
	j.Status, j.Wanted = "running", "cancelled"
	if err := j.save(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second service reads what the first one has written
		got := serve(t, c.dir, nil).good("", "GET", "fine_tuning/jobs/"+id, nil)
		if _, err := os.Stat(filepath.Join(j.dir, trainingRows)); got["status"] != "cancelled" || got["finished_at"] == nil || err == nil {
			t.Errorf("%v: its rows: %v", got, err)
		}
	}
}
