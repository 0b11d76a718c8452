package view

import (
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// answer is an experience that says one token, whose text is hostile.
func answer(task string, run int, reward trinity.Reward, derivative float32) trinity.TrainedExperience {
	e := trinity.Experience{
		ID: trinity.ExperienceID{Step: 3, Task: task, Run: run}, Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1,
		Logprobs: []float32{0, -1}, Advantages: []float32{0, .5}, Reward: reward, Prompt: "What?\x1b[2J", Response: "r",
	}
	return trinity.TrainedExperience{Experience: e, Updates: []trinity.Update{{
		Now: trinity.TokenStats{Logprob: []float32{0, -1.25}}, Grads: trinity.TokenGrads{Logprob: []float32{0, derivative}},
	}}}
}

func valid(v float64) trinity.Reward { return trinity.NewReward(map[string]float64{"r": v}) }

func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := map[int32]string{1: "What?", 2: "<script>\n\u202e\x1b[31m"}
	w, err := trace.New(trace.Options{
		Dir:  dir + "/r/" + rundir.Traces,
		Text: func(token int32) string { return text[token] }, Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Trained(trinity.Trained{Step: 7, Experiences: []trinity.TrainedExperience{
		answer("a", 0, valid(1), -.5), answer("a", 1, valid(0), 0), answer("b", 0, trinity.InvalidReward("no number"), .5),
	}})
	w.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 3, Task: "a", Run: 2}, Kind: trinity.FailedTool, Reason: "broken\nstack", Retries: 2, Sampled: []int32{2},
	})
	w.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 3, Task: "held"}, Role: trinity.RoleEvaluation, Kind: trinity.FailedTool, Reason: "no grader",
	})
	w.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 3, Task: "b", Run: 1}, Kind: trinity.DroppedAnswer, Reason: "dropped by advantage, with reward 1",
		Sampled: []int32{2},
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func shown(t *testing.T, dir string, o Options, coloured, tokens bool) string {
	t.Helper()
	p, err := Read(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := p.Print(&out, coloured, tokens); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPage(t *testing.T) {
	dir := written(t)
	text := shown(t, dir, Options{}, false, true)
	for _, want := range []string{
		"task b, run 1 dropped by advantage, with reward 1\nits last call had sampled: <script>",
		"train step 7 of ", "3 answers to 2 tasks, mean reward 0.5, 1 without a valid reward",
		"disagree by 0.25 nats a token, at most 0.25, over 3 tokens", "task a, explorer step 3\nWhat?\\x1b[2J\n",
		"  run 0: ✓ right, reward 1, advantage +0.5, 1 token, version 0\n    <script>⏎\n    \\u202e\\x1b[31m\n",
		"run 1: ✗ wrong, reward 0, advantage +0.5, 1 token, version 0, 1 of 1 tokens clipped", "run 0: no valid reward: no number",
		"task a, run 2 failed by tool after 2 retries: broken\n    stack\n",
		"\nevaluation: task held, run 0 failed by tool after 0 retries: no grader\n", "its last call had sampled: <script>", "0.7788",
		"<script>\\n\\u202e\\x1b[31m\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("the page has characters that change a terminal: %q", text)
	}
	coloured := shown(t, dir, Options{}, true, false)
	for _, want := range []string{raised + "<script>", dim + "<script>", lower + "<script>"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("the page lacks %q:\n%q", want, coloured)
		}
	}
}

func TestChoice(t *testing.T) {
	dir := written(t)
	text := shown(t, dir, Options{Task: "b"}, false, false)
	if strings.Contains(text, "task a") || !strings.Contains(text, "1 answer to 1 task,") {
		t.Errorf("the page of task b:\n%s", text)
	}
	text = shown(t, dir, Options{Worst: 2}, false, false)
	if strings.Contains(text, "reward 1,") || !strings.Contains(text, "2 answers to 2 tasks") {
		t.Errorf("the worst two:\n%s", text)
	}
	for want, o := range map[string]Options{
		"has no train step 6: it has 7": {Step: 6}, "train step 7 has no task c: it has a b": {Task: "c"},
	} {
		if _, err := Read(dir, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Read(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "no train step is kept below") {
		t.Error(err)
	}
	if err := os.Remove(dir + "/r/" + rundir.Traces + "/" + trace.TextsFile); err != nil {
		t.Fatal(err)
	}
	if text := shown(t, dir, Options{Task: "b"}, false, false); !strings.Contains(text, "\n    ‹2›\n") {
		t.Errorf("without the texts of tokens the page lacks their numbers:\n%s", text)
	}
	if err := os.WriteFile(trace.StepFile(dir+"/r/"+rundir.Traces, 7), []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, Options{}); err == nil || !strings.Contains(err.Error(), "step-7.parquet") {
		t.Error(err)
	}
}
