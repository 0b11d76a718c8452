package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
)

// `check` and `run` find a row that the workflow cannot ask or the reward cannot score before they
// load the model.
func TestRowsAreCheckedForTheReward(t *testing.T) {
	scored := strings.Replace(rl, "test_even", "accuracy_reward", 1)
	for _, c := range []struct{ name, line, want string }{
		{"no answer", `{"question": "max 1 2"}`, `train.jsonl:2: the task has no reference answer at format.response_key "answer"`},
		{"null for an answer", `{"question": "max 1 2", "answer": null}`,
			`train.jsonl:2: the task has no reference answer at format.response_key "answer"`},
		{"no question", `{"query": "max 1 2", "answer": "2"}`,
			`train.jsonl:2: format.prompt_key: no column "question": the row has answer, query`},
		{"no column of a template", `{"query": "max 1 2", "answer": "2"}`,
			`train.jsonl:2: format.prompt_template: no column "question": the row has answer, query`},
		{"twice", "{}\n{}", `; 2 of the 1000 rows checked have an error`},
	} {
		text := scored
		if strings.Contains(c.want, "template") {
			text = strings.Replace(scored, "prompt_key: question", "prompt_template: '{question} is'", 1)
		}
		p := newProject(t, tiny, text)
		path := filepath.Join(p.dir, "train.jsonl")
		lines := strings.SplitAfter(read(t, path), "\n")
		n := 1 + strings.Count(c.line, "\n")
		write(t, path, lines[0]+c.line+"\n"+strings.Join(lines[1+n:], ""))
		_, err := settle.Facts(p.load(t).Settled()[0])
		oneLine(t, err, "taskset digits: ", c.want)
		_, err = p.run(t)
		oneLine(t, err, "taskset digits: ", c.want)
		if exists(filepath.Join(p.job(), "monitor", rundir.MetricsFile)) {
			t.Errorf("%s: the run began", c.name)
		}
	}
}
