package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestLearn2Ask(t *testing.T) {
	const judged = "<content_score>0.5</content_score> and <format_score> 1 </format_score>"
	for _, c := range []struct {
		mode, fusion, truth, says, answer string
		want                              float64
		asks                              int
	}{
		{"Ra+Rs", "default", "continue", "Since when?", judged, 3, 1},
		{"Ra+Rs", "sum", "continue", "Since when?", judged, 2.5, 1},
		{"Ra", "default", "continue", "Since when?", judged, 2, 1},
		{"Rs", "default", "continue", "Since when?", judged, 4, 1},
		{"Ra+Rs", "default", "continue", "<stop />", judged, 0, 0},
		{"Ra+Rs", "default", "stop", "Since when?", judged, 0, 0},
		{"Ra+Rs", "default", "stop", "<stop />\n", judged, 4, 0},
		{"Ra+Rs", "default", "stop", "Thank you. <stop />", judged, 3, 0},
	} {
		host, task := &court{answer: c.answer}, task()
		task.Format.PromptKey = "messages"
		task.Row["messages"] = []any{
			map[string]any{"role": "user", "content": "I cough."}, map[string]any{"role": "assistant", "content": "Fever?"},
			map[string]any{"role": "user", "content": "No."},
		}
		task.Row["decision_truth"], task.Row["info_truth"] = c.truth, "how long it has lasted"
		w := build(t, "learn2ask_workflow", map[string]any{"train_mode": c.mode, "fusion_mode": c.fusion})
		if err := trinity.RequirementsOf(w).CheckTask(task); err != nil {
			t.Fatal(err)
		}
		p := &parrot{says: c.says}
		r := rollout(task, model(p), &echo{})
		r.Host = host
		exps, err := w.Run(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if e := exps[0]; e.Reward.Value != c.want || !e.Reward.Valid || len(e.Reward.Parts) != 3 || len(host.questions) != c.asks {
			t.Errorf("%+v: %+v after %d questions", c, e.Reward, len(host.questions))
		}
		if want := "system: " + askSystem + "\nuser: I cough.\nassistant: Fever?\nuser: No.\nassistant: "; p.asked != want {
			t.Errorf("asked %q", p.asked)
		}
		for _, q := range host.questions {
			if !strings.Contains(q, "how long it has lasted") || !strings.HasSuffix(q, "user: No.\nassistant: Since when?\n") {
				t.Errorf("the judge read %q", q)
			}
		}
	}
}

// A judge that nobody can read gives no reward.
func TestLearn2AskWithoutAVerdict(t *testing.T) {
	for answer, want := range map[string]string{
		"fine": "unreadable: the answer lacks",
		"<content_score>7</content_score><format_score>1</format_score>": `unreadable: the answer has the content_score "7"`,
		"<content_score>1</content_score>":                               "unreadable: the answer lacks",
	} {
		host := &court{answer: answer}
		r := rollout(task(), model(&parrot{says: "Why?"}), nil)
		r.Host = host
		exps, err := build(t, "learn2ask_workflow", nil).Run(t.Context(), r)
		if err != nil || exps[0].Reward.Valid || !strings.Contains(exps[0].Reward.Reason, want) || len(host.questions) != tries {
			t.Errorf("answer %q: %+v, %v", answer, exps, err)
		}
	}
	wrong := task()
	wrong.Row["decision_truth"] = "go on"
	if err := trinity.RequirementsOf(build(t, "learn2ask_workflow", nil)).CheckTask(wrong); err == nil {
		t.Error("a row with another decision is fine")
	}
}

// A pack of interviews is judged turn by turn. The policy reads in its hints what the judge made of
// earlier turns, and the judge reads no hints.
func TestAPackOfInterviewsIsJudged(t *testing.T) {
	interview := func(decision string) map[string]any {
		return map[string]any{
			"messages":       []any{map[string]any{"role": "user", "content": "I cough."}},
			"decision_truth": decision, "info_truth": "how long it has lasted",
		}
	}
	var learnt []string
	policy := func(prompt string) string {
		switch {
		case strings.Contains(prompt, "The hints so far"):
			learnt = append(learnt, prompt)
			return "<hints>stop soon</hints>"
		case strings.Contains(prompt, "stop soon"):
			return "<stop />"
		}
		return "Since when?"
	}
	const scores = "<content_score>0.5</content_score><format_score>1</format_score>"
	for _, c := range []struct {
		verdict string
		rewards string
		asked   int
	}{
		{scores, "[3 4 0]", 1}, // a question, a right stop, a wrong stop
		{"fine", "", tries},
	} {
		host := &court{answer: c.verdict}
		r := packed(policy, interview("continue"), interview("stop"), interview("continue"))
		for _, task := range r.Task.Pack {
			task.Format.PromptKey = "messages"
		}
		r.Host, learnt = host, nil
		w := build(t, "cod_learn2ask_workflow", nil)
		if err := trinity.RequirementsOf(w).CheckTask(r.Task.Pack[0]); err != nil {
			t.Fatal(err)
		}
		exps, err := w.Run(t.Context(), r)
		if err != nil || len(host.questions) != c.asked {
			t.Fatalf("%q: %d questions, %v", c.verdict, len(host.questions), err)
		}
		if c.rewards == "" {
			if len(exps) != 1 || exps[0].Reward.Valid || !strings.Contains(exps[0].Reward.Reason, "task 1 of the pack") {
				t.Errorf("an unreadable verdict: %+v", exps[0].Reward)
			}
			continue
		}
		if got := fmt.Sprint(exps[0].Info["task_rewards"]); got != c.rewards || len(exps) != 5 {
			t.Errorf("%d experiences with the rewards %s, want 5 with %s", len(exps), got, c.rewards)
		}
		for i, want := range []string{"The right decision was to continue. Scores: decision 1, content 0.5, format 1.",
			"The right decision was to stop. Scores: decision 1, content 1, format 1."} {
			if !strings.Contains(learnt[i], want) {
				t.Errorf("before hints %d the policy read %q", i+1, learnt[i])
			}
		}
		if q := host.questions[0]; !strings.HasSuffix(q, "user: I cough.\nassistant: Since when?\n") || strings.Contains(q, "hint") {
			t.Errorf("the judge read %q", q)
		}
	}
}
