package workflow

import (
	"encoding/json"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/reward" // of which the assignment tells
)

// A program reads what the run knows of its rollout, and no secret.
func TestAssignments(t *testing.T) {
	for name, c := range map[string]struct {
		reward string
		args   map[string]any
		want   string
	}{
		"of the program": {
			"exec", map[string]any{"command": []any{"score"}, "env": map[string]any{"KEY": "secret"}},
			`"reward_fn":"exec","reward_fn_args":{"command":["score"]},`,
		},
		"of the user": {
			"python", map[string]any{"class": "my.Right", "args": map[string]any{"weight": 2}, "python": map[string]any{"env": "secret"}},
			`"reward_fn":"python:my.Right","reward_fn_args":{"weight":2},`,
		},
		"none": {"", nil, ""},
	} {
		r := rollout(task(), model(&parrot{}), nil)
		r.Task.Taskset, r.Task.Index, r.Task.GroupSize, r.Seed = "taskset", 5, 4, 7
		r.Task.Reward, r.Task.RewardArgs = c.reward, c.args
		r.Task.Row, r.Task.Format = map[string]any{"q": "2+3?"}, trinity.TaskFormat{PromptKey: "q", SystemPrompt: "Be brief."}
		r.Model.MaxModelLen = 64
		a := defaultAgent()
		a.auxiliary = []string{"judge"}
		got, err := json.Marshal(a.assign(r, &recorder{}))
		want := `{"task":"taskset/5","eval":false,"prompt":"2+3?","messages":[{"role":"system","content":"Be brief."},` +
			`{"role":"user","content":"2+3?"}],"row":{"q":"2+3?"},"seed":7,"base_url":"http://here/r/k/v1","api_key":"k","run":1,` +
			`"repeat_times":4,"step":2,"batch_id":2,"index":{"taskset":"taskset","index":5},` +
			`"format":{"prompt_key":"q","system_prompt":"Be brief."},"rollout_args":{"max_tokens":99,"stop":["STOP"],"temperature":0.5},` +
			c.want + `"model":{"max_model_len":64,"max_response_tokens":99},` +
			`"auxiliary":[{"name":"judge","base_url":"http://here/r/k/v1","api_key":"k"}]}`
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
}
