package reward

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// The check before a run and the reason of the score both name the key that the row lacks.
func TestMissingTruthNamesTheKey(t *testing.T) {
	for name, args := range map[string]map[string]any{
		"last_number_reward": nil, "countdown_reward": nil, "accuracy_reward": nil, "json_reward": {"keys": []any{"a"}},
	} {
		f, err := registry.Rewards.Build(name, args)
		if err != nil {
			t.Fatal(err)
		}
		task := &trinity.Task{Row: map[string]any{"answer": "4", "nums": []any{1.0}}, Format: trinity.TaskFormat{ResponseKey: "solution"}}
		const want = `format.response_key "solution", which the row does not have`
		if err := trinity.RequirementsOf(f).CheckTask(task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the check says %v", name, err)
		}
		r, err := f.Score(t.Context(), trinity.RewardInput{Task: task, Response: "4"})
		if err != nil || r.Valid || !strings.Contains(r.Reason, want) {
			t.Errorf("%s: the score is %+v, %v", name, r, err)
		}
	}
}
