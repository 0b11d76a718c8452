package workflow

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// guest is a host with a model that plays a user by these lines.
type guest struct {
	trinity.Host
	lines []string
	heard [][]trinity.Message
}

func (g *guest) Asker(string) (trinity.Asker, error) { return g, nil }

func (g *guest) Ask(_ context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	if o.Keep != nil {
		return trinity.Answer{}, errors.New("the run would keep what a user says")
	}
	g.heard = append(g.heard, messages)
	if len(g.lines) == 0 {
		return trinity.Answer{}, trinity.NoAnswer("0", trinity.AskUnreachable, errors.New("nobody"))
	}
	line := g.lines[0]
	g.lines = g.lines[1:]
	return trinity.Answer{Message: trinity.Message{Role: "assistant", Content: line}}, nil
}

func TestUserSimulation(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  map[string]any
		row   map[string]any
		lines []string
		exps  int
		chat  string // as the reward function sees it
		cut   trinity.Truncation
	}{
		{"ends when the user is done", nil, nil, []string{"Hi.", "More!", "Thanks. <done>"}, 1,
			"system:Be brief./user:Hi./assistant:ok/user:More!/assistant:ok", ""},
		{"begins with the row's message", nil, map[string]any{"first_message": "Help!"}, []string{"<done>"}, 1,
			"system:Be brief./user:Help!/assistant:ok", ""},
		{"has a limit", map[string]any{"max_turns": 1}, nil, []string{"Hi.", "More!"}, 1,
			"system:Be brief./user:Hi./assistant:ok", trinity.TurnsTruncated},
		{"gives an experience for each reply", map[string]any{"steps": true}, nil, []string{"Hi.", "More!", "<done>"}, 2,
			"system:Be brief./user:Hi./assistant:ok/user:More!/assistant:ok", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, task, scored := &guest{lines: c.lines}, task(), &echo{}
			task.Format.SystemPromptKey = "sys"
			for k, v := range c.row {
				task.Row[k] = v
			}
			r := rollout(task, model(&parrot{says: "ok", reason: "stop"}), scored)
			r.Host = host
			exps, err := build(t, "user_simulation_workflow", c.args).Run(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			var chat []string
			for _, m := range scored.got.Messages {
				chat = append(chat, m.Role+":"+m.Content)
			}
			if got := strings.Join(chat, "/"); got != c.chat || len(exps) != c.exps || exps[len(exps)-1].Truncated != c.cut {
				t.Errorf("%d experiences of %s, cut %q", len(exps), got, exps[len(exps)-1].Truncated)
			}
			for _, heard := range host.heard {
				if !strings.HasSuffix(heard[0].Content, "2+3?") || strings.Contains(heard[0].Content, "Be brief.") {
					t.Errorf("the user was told %q", heard[0].Content)
				}
			}
			if e := exps[0]; !e.Reward.Valid || e.Check() != nil || strings.Contains(plain{}.Decode(e.Tokens), "2+3?") {
				t.Errorf("%+v, %v", e, e.Check())
			}
		})
	}
}

// A user who cannot be asked fails the rollout as a model.
func TestAUserWhoIsAwayFailsTheRollout(t *testing.T) {
	r := rollout(task(), model(&parrot{says: "ok"}), &echo{})
	r.Host = &guest{lines: []string{"Hi."}}
	_, err := build(t, "user_simulation_workflow", nil).Run(t.Context(), r)
	var failed *trinity.RolloutError
	if !errors.As(err, &failed) || failed.Kind != trinity.FailedModel || !strings.Contains(err.Error(), "simulated user") {
		t.Errorf("%v", err)
	}
}
