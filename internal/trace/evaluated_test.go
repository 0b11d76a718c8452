package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// spelling is a tokenizer of words with the ids of their places.
type spelling []string

func (s spelling) Text(token int32) string { return s[token] }

func (s spelling) Decode(tokens []int32, _ bool) string {
	var out strings.Builder
	for _, token := range tokens {
		out.WriteString(s[token])
	}
	return out.String()
}

// held returns what became of a held-out task: an answer, an episode of two turns, and a failure.
func held(step int64) []Evaluated {
	task := &trinity.Task{
		ID: "few/3", Taskset: "few", Index: 3, Row: map[string]any{"q": "2+2?", "a": 4},
		Format: trinity.TaskFormat{PromptKey: "q", ResponseKey: "a"}, GroupSize: 3,
	}
	id := trinity.ExperienceID{Step: step, Task: task.ID}
	one := &trinity.Experience{
		ID: id, Tokens: []int32{0, 1}, Mask: []bool{false, true}, PromptLen: 1, Prompt: "2+2?", Response: "4", Versions: [2]int64{2, 3},
		Reward: trinity.NewReward(map[string]float64{"accuracy": 1}), Truth: "4",
	}
	id.Run = 1
	words := spelling(strings.SplitAfter("<|im_start|> user\n go <|im_end|> <|im_start|> assistant\n up <|im_end|> <|im_start|> "+
		"user\n wall <|im_end|> <|im_start|> assistant\n <think> no </think> down <|im_end|>", " "))
	two := &trinity.Experience{ID: id, PromptLen: 6, EnvironmentLen: 6, Prompt: "go", Response: "down"}
	two.Reward = trinity.InvalidReward("no goal")
	for i := range words {
		words[i] = strings.TrimSuffix(words[i], " ")
		two.Tokens, two.Mask = append(two.Tokens, int32(i)), append(two.Mask, i == 6 || i == 7 || i >= 14)
	}
	return EvaluatedOf(step, task, trinity.Group{one, two}, []error{errors.New("task few/3, run 2: boom")}, words)
}

func TestEvaluationReadsBack(t *testing.T) {
	rows := held(8)
	if len(rows) != 3 || *rows[0].Run != 0 || *rows[0].Reward != 1 || rows[0].Chat != "" || rows[0].ModelVersion != 3 || rows[0].Step != 8 ||
		rows[1].Reward != nil || rows[1].Reason != "no goal" || rows[2].Run != nil || rows[2].Prompt != "2+2?" || rows[2].Truth != "4" {
		t.Errorf("%+v", rows)
	}
	want := `[{"role":"user","content":"go"},{"role":"assistant","content":"up"},{"role":"user","content":"wall"},` +
		`{"role":"assistant","content":"\u003cthink\u003eno\u003c/think\u003edown"}]`
	if string(rows[1].Chat) != want {
		t.Errorf("chat %s\nwant %s", rows[1].Chat, want)
	}
	dir := t.TempDir()
	w, said := open(t, Options{Dir: dir})
	w.Evaluation(Evaluation{Who: OfRun, Step: 8, Rows: rows})
	closed(t, w)
	files, err := Evaluations(dir)
	if err != nil || len(files) != 1 || files[0].Who != OfRun || files[0].Step != 8 || said() != nil {
		t.Fatalf("%+v, %v, said %q", files, err, said())
	}
	if got, err := ReadEvaluated(files[0].Path); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("read %+v, %v", got, err)
	}
	lines, path := "", filepath.Join(dir, "answers.jsonl")
	for _, row := range rows {
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines += string(line) + "\n"
	}
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEvaluated(path); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("read %+v, %v of\n%s", got, err, lines)
	}
}

// A run that resumes evaluates later steps again; bench and other explorers have files of their own.
func TestEvaluationsOfAResumedRunReplace(t *testing.T) {
	dir := t.TempDir()
	write := func(who string, steps ...int64) {
		w, _ := open(t, Options{Dir: dir})
		for _, step := range steps {
			w.Evaluation(Evaluation{Who: who, Step: step, Rows: held(step)})
		}
		closed(t, w)
	}
	write(OfRun, 0, 4, 8, 12)
	write("al-ice", 12)
	write(OfBench, 0, 12)
	write(OfRun, 6, 8)
	files, err := Evaluations(dir)
	var names []string
	for _, f := range files {
		names = append(names, fmt.Sprint(f.Who, " ", f.Step))
	}
	if got := strings.Join(names, ", "); err != nil || got != "bench 0, step 0, step 4, step 6, step 8, al-ice 12, bench 12" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestEvaluationsStayBelowTheLimit(t *testing.T) {
	sizes := func(steps ...int64) (all []sized) {
		for _, step := range steps {
			all = append(all, sized{path: fmt.Sprint(step), step: step, bytes: 10})
		}
		return all
	}
	for _, c := range []struct {
		steps []int64
		limit int64
		want  string
	}{
		{[]int64{0, 2, 4}, 120, ""}, {[]int64{0, 2, 4, 6}, 120, "2"}, {[]int64{0, 2, 4, 6, 8}, 120, "2 6"},
		{[]int64{0, 2, 4, 6, 8}, 80, "2 6 4"}, {[]int64{0, 2}, 8, ""},
	} {
		if got := strings.Join(files{evaluated: sizes(c.steps...)}.over(c.limit, 1), " "); got != c.want {
			t.Errorf("steps %v, limit %d: %q go, want %q", c.steps, c.limit, got, c.want)
		}
	}
}

func TestWhatIsNoEvaluation(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.jsonl": `{"step":1}`, "b.jsonl": "{", "c.parquet": "PAR1"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEvaluated(path); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadEvaluated(filepath.Join(dir, "nowhere.parquet")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzReadEvaluated(f *testing.F) {
	data, err := EvaluatedFile(held(8))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEvaluated(path); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	})
}
