package workflow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
)

// commands reads a reply that begins with $ as a call of bash.
type commands struct{ plain }

func (c commands) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m, _, err := c.plain.Read(tokens, tools)
	command, ok := strings.CutPrefix(m.Content, "$")
	if !ok || err != nil {
		return m, nil, err
	}
	arguments, err := json.Marshal(map[string]string{"command": command})
	return trinity.Message{Role: "assistant"}, []trinity.ToolCall{{Name: "bash", Arguments: arguments}}, err
}

// A policy that solves a task folder, and one that does not; the verifier has two values.
func TestHarborSolvesTaskFolders(t *testing.T) {
	if _, err := sandbox.New(sandbox.Full); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"instruction.md": "Write hello to a.", "task.toml": "version = \"1.0\"\n", "tests/test.sh": `solved=false
[ "$(cat a)" = hello ] && solved=true
echo "{\"solved\": $solved, \"lines\": $(cat a | wc -l)}" >/logs/verifier/reward.json
`,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	task := &trinity.Task{ID: id.Task, Row: map[string]any{"path": folder}}
	w := build(t, "harbor_workflow", map[string]any{"max_turns": 2, "reward_key": "solved"})
	if err := trinity.RequirementsOf(w).CheckTask(task); err != nil {
		t.Fatal(err)
	}
	for says, want := range map[string]struct{ reward, turns float64 }{
		"$echo hello >a": {1, 2}, "$echo Hello >a": {0, 2}, "I will not.": {0, 1},
	} {
		m := model(&parrot{says: says})
		m.Renderer = commands{}
		exps, err := w.Run(t.Context(), rollout(task, m, nil))
		if err != nil || len(exps) != 1 {
			t.Fatal(err, len(exps))
		}
		e := exps[0]
		if !e.Reward.Valid || e.Reward.Value != want.reward || e.Metrics["turns"] != want.turns || e.Metrics["lines"] != want.turns-1 {
			t.Errorf("%s: %+v, %v, want %v", says, e.Reward, e.Metrics, want)
		}
	}
}
