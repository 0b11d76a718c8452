package finetune

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/dataset"
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
	if c.turns.charged["bob"] != [2]int{8, 8} {
		t.Errorf("%v", c.turns.charged)
	}
}
