package reward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("test_digit", "1 for a reply with a digit, else 0.", func() trinity.RewardFunc { return digit{} })
}

type digit struct{}

func (digit) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if strings.ContainsAny(in.Response, "0123456789") {
		return trinity.NewReward(map[string]float64{"digit": 1}), nil
	}
	return trinity.NewReward(map[string]float64{"digit": 0}), nil
}

// bench is a host with one judge, whose answers a test writes. It keeps the questions.
type bench struct {
	trinity.Host
	answer    func(question string) (string, error)
	mu        sync.Mutex
	questions []string
}

func (b *bench) Asker(name string) (trinity.Asker, error) {
	if name != "j" && name != trinity.PolicyAsker {
		return nil, fmt.Errorf("no model is called %q", name)
	}
	return b, nil
}

func (b *bench) Ask(_ context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	question := messages[len(messages)-1].Content
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions = append(b.questions, question)
	text, err := b.answer(question)
	if *o.Temperature != 0 || o.MaxTokens != 1024 {
		err = fmt.Errorf("asked with %+v", o)
	}
	return trinity.Answer{Message: trinity.Message{Role: "assistant", Content: text}, Version: 4}, err
}

// group returns the rollouts of a task with these replies.
func (b *bench) group(replies ...string) (in []trinity.RewardInput) {
	for i, reply := range replies {
		in = append(in, trinity.RewardInput{
			Task: &trinity.Task{ID: "t/0"}, Prompt: "How many?", Response: reply, Truth: "three", Host: b,
			Experience: &trinity.Experience{ID: trinity.ExperienceID{Step: 2, Task: "t/0", Run: i}, Response: reply},
		})
	}
	return in
}

// scores scores a group, and returns the rewards as text.
func (b *bench) scores(t *testing.T, name string, args map[string]any, replies ...string) string {
	t.Helper()
	rewards, err := build(t, name, args).(trinity.GroupReward).ScoreGroup(t.Context(), b.group(replies...))
	if err != nil {
		return "error: " + err.Error()
	}
	var all []string
	for _, r := range rewards {
		if r.Valid {
			all = append(all, fmt.Sprintf("%.3g%v", r.Value, r.Parts))
		} else {
			all = append(all, "invalid: "+r.Reason)
		}
	}
	return strings.Join(all, "; ")
}

func says(text string) func(string) (string, error) {
	return func(string) (string, error) { return text, nil }
}

// The row may have the criteria. A fault that the reply has counts against it.
func TestJudgeReadsTheCriteriaOfTheRow(t *testing.T) {
	in := (&bench{}).group("3")[0]
	in.Task = &trinity.Task{Row: map[string]any{"rubric": []any{
		map[string]any{"description": "short", "weight": 3}, map[string]any{"criterion": "rude", "weight": -2},
		map[string]any{"criterion": "kind"}}}}
	for _, c := range []struct{ mode, answer, shown, want string }{
		{"rubric", `{"met": [true, true, false]}`, "2. rude\n", "0.25"},
		{"rubric", `{"met": [false, true, false]}`, "1. short\n", "0"},
		{"score", `{"score": 5}`, "2. (weight -2) rude\n3. (weight 1) kind\n", "0.5"},
	} {
		b := &bench{answer: says(c.answer)}
		in.Host = b
		r, err := build(t, "judge_reward", map[string]any{"judge": "j", "mode": c.mode, "criteria_key": "rubric"}).Score(t.Context(), in)
		if err != nil || fmt.Sprint(r.Value) != c.want || !r.Valid || !strings.Contains(b.questions[0], c.shown) {
			t.Errorf("mode %s: %+v, %v, want %s; asked %q", c.mode, r, err, c.want, b.questions)
		}
	}
	in.Task.Row["rubric"] = "be kind"
	r, err := build(t, "judge_reward", map[string]any{"judge": "j", "criteria_key": "rubric"}).Score(t.Context(), in)
	if err != nil || !strings.Contains(r.Reason, `column "rubric" has no list of criteria`) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestJudgeReward(t *testing.T) {
	score := map[string]any{"judge": "j"}
	label := map[string]any{"judge": "j", "mode": "label", "labels": map[string]any{"good": 1, "bad": -1}}
	rubric := map[string]any{"judge": "j", "mode": "rubric", "criteria": []any{
		map[string]any{"criterion": "short", "weight": 3}, map[string]any{"criterion": "kind"}}}
	for _, c := range []struct {
		args         map[string]any
		answer, want string
	}{
		{score, `It is fine. {"score": 7}`, "0.7map[judge:0.7]"},
		{score, `{"score": 2} no: {"score": 10}`, "1map[judge:1]"},
		{score, `{"score": 11}`, "invalid: model j: unreadable: the answer has no score from 0 to 10"},
		{score, `seven`, "invalid: model j: unreadable: the answer has no JSON object: seven"},
		{score, `{"score": "7"}`, "invalid: model j: unreadable: the answer is not of the form"},
		{label, `{"label": "bad"}`, "-1map[judge:-1]"},
		{label, `{"label": "ugly"}`, `invalid: model j: unreadable: the answer has the label "ugly"`},
		{rubric, `{"met": [true, false]}`, "0.75map[criterion_1:1 criterion_2:0 judge:0.75]"},
		{rubric, `{"met": [true]}`, "invalid: model j: unreadable: the answer judges 1 criteria, want 2"},
		{map[string]any{"judge": "k"}, "", `invalid: no model is called "k"`},
	} {
		b := &bench{answer: says(c.answer)}
		if got := b.scores(t, "judge_reward", c.args, "3"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v, answer %s: %s, want %s", c.args, c.answer, got, c.want)
		}
		if strings.Contains(c.want, "unreadable") != (len(b.questions) == 3) {
			t.Errorf("answer %s: %d questions", c.answer, len(b.questions))
		}
		for _, q := range b.questions {
			if !strings.Contains(q, "How many?") || !strings.Contains(q, "[reply]\n3\n") || !strings.Contains(q, "three") {
				t.Errorf("the question is %q", q)
			}
		}
	}
}

// Each reason keeps its name, and a failed engine ends the run.
func TestAJudgeWithoutAnAnswerGivesNoReward(t *testing.T) {
	for _, name := range []string{"judge_reward", "ruler_reward"} {
		for _, reason := range []trinity.AskReason{trinity.AskRefused, trinity.AskTimedOut, trinity.AskUnreachable} {
			b := &bench{answer: func(string) (string, error) { return "", trinity.NoAnswer("j", reason, errors.New("why")) }}
			want := fmt.Sprintf("invalid: model j: %s: why", reason)
			if got := b.scores(t, name, map[string]any{"judge": "j"}, "3", "4"); got != want+"; "+want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		b := &bench{answer: func(string) (string, error) { return "", &trinity.EngineError{Err: errors.New("away")} }}
		if got := b.scores(t, name, map[string]any{"judge": "j"}, "3", "4"); got != "error: engine: away" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestJudgeRewardComparesPairs(t *testing.T) {
	pairs := map[string]any{"judge": "j", "mode": "pairwise"}
	longer := func(question string) (string, error) {
		_, rest, _ := strings.Cut(question, "[reply A]\n")
		a, rest, _ := strings.Cut(rest, "\n\n[reply B]\n")
		b, _, _ := strings.Cut(rest, "\n\n")
		if b == "cc" {
			return `{"better": "C"}`, nil
		}
		return fmt.Sprintf(`{"better": %q}`, map[bool]string{true: "A", false: "B"}[len(a) > len(b)]), nil
	}
	b := &bench{answer: longer}
	const want = "0.25map[judge:0.25]; 1map[judge:1]; 0.25map[judge:0.25]"
	if got := b.scores(t, "judge_reward", pairs, "a", "bbb", "a"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(b.questions) != 2 {
		t.Errorf("%d questions, want 2: equal replies tie without one", len(b.questions))
	}
	if got := b.scores(t, "judge_reward", pairs, "a"); got != "invalid: mode pairwise needs a group of at least two replies" {
		t.Error(got)
	}
	first := map[bool]bool{} // whether the first reply of a pair comes first
	for seed := range 20 {
		b := &bench{answer: says(`{"better": "A"}`)}
		pairs["seed"] = seed
		one, again := b.scores(t, "judge_reward", pairs, "a", "bb"), b.scores(t, "judge_reward", pairs, "a", "bb")
		if one != again {
			t.Errorf("seed %d: %s and %s", seed, one, again)
		}
		first[strings.HasPrefix(one, "1")] = true
	}
	if len(first) != 2 {
		t.Error("the order of a pair does not depend on the seed")
	}
}

func TestRulerReward(t *testing.T) {
	// The judge scores a conversation by the number in it.
	byNumber := func(question string) (string, error) {
		var scores []string
		for _, c := range strings.Split(question, "# Conversation ")[1:] {
			_, reply, _ := strings.Cut(c, "[assistant]\n")
			scores = append(scores, "0."+reply[:1])
		}
		return `{"scores": [` + strings.Join(scores, ", ") + `]}`, nil
	}
	args := map[string]any{"judge": "j"}
	questions := map[string]bool{}
	for seed := range 10 {
		b := &bench{answer: byNumber}
		args["seed"] = seed
		got := b.scores(t, "ruler_reward", args, "3 x", "5 x", "3 x", "9 x")
		if want := "0.3map[ruler:0.3]; 0.5map[ruler:0.5]; 0.3map[ruler:0.3]; 0.9map[ruler:0.9]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		q := b.questions[0]
		if len(b.questions) != 1 || strings.Count(q, "How many?") != 1 || strings.Count(q, "3 x") != 1 {
			t.Errorf("%d questions: %s", len(b.questions), q)
		}
		questions[q] = true
	}
	if len(questions) < 3 {
		t.Errorf("%d orders of three conversations in 10 seeds", len(questions))
	}
	for answer, want := range map[string]string{
		`{"scores": [0.5]}`:    "the answer has no list of 2 scores",
		`{"scores": [0.5, 2]}`: "the answer has the score 2, want one from 0 to 1",
	} {
		b := &bench{answer: says(answer)}
		got := b.scores(t, "ruler_reward", map[string]any{"judge": "j"}, "3", "4")
		if strings.Count(got, "invalid: model j: unreadable: "+want) != 2 {
			t.Errorf("%s: %s, want %s for both", answer, got, want)
		}
	}
}

// Calls of tools tell conversations apart; their ids do not.
func TestRulerComparesCalls(t *testing.T) {
	b := &bench{answer: says(`{"scores": [0.1, 0.2]}`)}
	in := b.group("x", "x", "x")
	calls := []string{`{"id": "1", "function": {"name": "f"}}`, `{"id": "2", "function": {"name": "f"}}`, `{"function": {"name": "g"}}`}
	for i, call := range calls {
		in[i].Messages = []trinity.Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "x", ToolCalls: []byte("[" + call + "]")}}
	}
	rewards, err := build(t, "ruler_reward", map[string]any{"judge": "j"}).(trinity.GroupReward).ScoreGroup(t.Context(), in)
	if err != nil || !rewards[0].Valid || rewards[0].Value != rewards[1].Value || rewards[0].Value == rewards[2].Value {
		t.Errorf("%+v, %v", rewards, err)
	}
}

func TestTheVersionOfAJudgingPolicyIsRecorded(t *testing.T) {
	for name, answer := range map[string]string{"judge_reward": `{"score": 1}`, "ruler_reward": `{"scores": [1, 0.5]}`} {
		b := &bench{answer: says(answer)}
		in := b.group("3", "4")
		in[0].Experience.Info = map[string]any{"kept": 1}
		if _, err := build(t, name, map[string]any{"judge": "policy"}).(trinity.GroupReward).ScoreGroup(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		for _, one := range in {
			if one.Experience.Info["judge_version"] != int64(4) {
				t.Errorf("%s: info %v", name, one.Experience.Info)
			}
		}
		if in[0].Experience.Info["kept"] != 1 {
			t.Errorf("%s: info %v", name, in[0].Experience.Info)
		}
	}
}

func TestBadArgumentsOfJudges(t *testing.T) {
	with := func(more map[string]any) map[string]any {
		args := map[string]any{"judge": "j"}
		for k, v := range more {
			args[k] = v
		}
		return args
	}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{nil, "judge: name a model of explorer.auxiliary_models, or policy"},
		{with(map[string]any{"tries": 0}), "tries: must be at least 1"},
		{with(map[string]any{"mode": "best"}), `mode: want score, label, rubric or pairwise, got "best"`},
		{with(map[string]any{"lowest": 10}), "highest: must be above lowest 10, got 10"},
		{with(map[string]any{"mode": "label"}), "labels: map at least two labels"},
		{with(map[string]any{"mode": "rubric"}), "criteria: list what a reply should meet"},
		{with(map[string]any{"mode": "rubric", "criteria": []any{map[string]any{"criterion": "c", "weight": 0}}}),
			"criteria.0: want a criterion"},
	} {
		if _, err := registry.Rewards.Build("judge_reward", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
}

func hybridOf(value string, parts ...any) map[string]any {
	return map[string]any{"value": value, "rewards": parts}
}

func TestHybridReward(t *testing.T) {
	length := part("test_digit", "name", "number")
	judged := part("judge_reward", "name", "judge", "args", map[string]any{"judge": "j"}, "when", "number > 0")
	for _, c := range []struct {
		value, want string
		asked       int
	}{
		{"0.5*number + 0.5*(judge ?? 0)", "0.9map[judge:0.8 number:1]; 0map[number:0]", 1},
		{"number > 0 ? clip(judge, 0, 0.25) : -1", "0.25map[judge:0.8 number:1]; -1map[number:0]", 1},
		{`len(response) - response_tokens`, "2map[judge:0.8 number:1]; 3map[number:0]", 1},
		{"number / 0", "invalid: value is not a finite number; invalid: value is not a finite number", 1},
		{"number + judge", "1.8map[judge:0.8 number:1]; invalid: value: ", 1},
	} {
		b := &bench{answer: says(`{"score": 8}`)}
		got := b.scores(t, "hybrid_reward", hybridOf(c.value, length, judged), "a3", "abc")
		if !strings.HasPrefix(got, c.want) || len(b.questions) != c.asked {
			t.Errorf("%s: %s after %d questions, want %s", c.value, got, len(b.questions), c.want)
		}
	}
	b := &bench{answer: says("nothing")}
	got := b.scores(t, "hybrid_reward", hybridOf("number", length, judged), "a3", "abc")
	if !strings.HasPrefix(got, "invalid: judge: model j: unreadable") || !strings.HasSuffix(got, "; 0map[number:0]") {
		t.Errorf("a judge that cannot be read: %s", got)
	}
	needs := trinity.RequirementsOf(build(t, "hybrid_reward", hybridOf("judge", length, judged)))
	if want := []trinity.AskerSpec{{Name: "j", Arg: "rewards.1.args.judge"}}; !slices.Equal(needs.Askers, want) {
		t.Errorf("asks %v, want %v", needs.Askers, want)
	}
}

func TestBadArgumentsOfHybrid(t *testing.T) {
	number := part("test_digit", "name", "n")
	for want, args := range map[string]map[string]any{
		"rewards: list them":              hybridOf("1"),
		"value: write an expression":      hybridOf("", number),
		"value: unknown name m":           hybridOf("m", number),
		"value: unknown name now":         hybridOf("now().Unix() + n", number),
		"rewards.1.name: \"n\" must be":   hybridOf("n", number, number),
		"rewards.0.name: \"a-b\" must be": hybridOf("1", part("format_reward", "name", "a-b")),
		"rewards.0.when: unknown name n":  hybridOf("1", part("format_reward", "name", "f", "when", "n > 0"), number),
		"hybrid_reward":                   weightedOf(part("judge_reward", "args", map[string]any{"judge": "j"})),
	} {
		name := "hybrid_reward"
		if want == name {
			name = "weighted_reward"
		}
		if _, err := registry.Rewards.Build(name, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A reply that a function failed to score says what the function failed by, so explorer.max_failed_ratio
// counts it.
func TestAReplyThatIsNotScoredHasAKind(t *testing.T) {
	number := part("test_digit", "name", "number")
	judge := part("judge_reward", "name", "judge", "args", map[string]any{"judge": "j"})
	down := func(string) (string, error) {
		return "", trinity.NoAnswer("j", trinity.AskUnreachable, errors.New("down"))
	}
	for _, c := range []struct {
		name string
		args map[string]any
		want trinity.FailureKind
	}{
		{"hybrid_reward", hybridOf("1 + fromJSON(response)", number), trinity.FailedReward},
		{"hybrid_reward", hybridOf("number / 0", number), trinity.FailedReward},
		{"hybrid_reward", hybridOf("1.0", part("test_digit", "name", "number", "when", "fromJSON(response)")), trinity.FailedReward},
		{"hybrid_reward", hybridOf("judge", judge), trinity.FailedModel},
		{"hybrid_reward", hybridOf("number", number), ""},
		{"judge_reward", map[string]any{"judge": "j"}, trinity.FailedModel},
		{"judge_reward", map[string]any{"judge": "j", "mode": "pairwise"}, trinity.FailedModel},
	} {
		b := &bench{answer: down}
		rewards, err := build(t, c.name, c.args).(trinity.GroupReward).ScoreGroup(t.Context(), b.group("a3", "a4"))
		if err != nil || rewards[0].Kind != c.want || rewards[0].Valid != (c.want == "") {
			t.Errorf("%s %v: %+v, %v; want kind %q", c.name, c.args, rewards, err, c.want)
		}
	}
}
