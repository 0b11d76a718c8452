package annotate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/archive"
)

// read reads rows of JSON Lines.
func read(t *testing.T, o Options, rows ...string) (Data, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return Read(t.Context(), path, o)
}

// plain holds the keys of Trinity-RFT's demonstration data.
var plain = Options{PromptKey: "prompt", AnswerKeys: []string{"answer1", "answer2"}}

// brief formats each pair as prompt:first/second.
func brief(d Data) string {
	var out []string
	for _, p := range d.Pairs {
		out = append(out, fmt.Sprintf("%s:%s/%s", p.Prompt.messages()[0].Content, p.Answers[0], p.Answers[1]))
	}
	return strings.Join(out, " ")
}

func TestReadPairsAnswers(t *testing.T) {
	experience := func(task, prompt, response string, step int) string {
		return fmt.Sprintf(`{"id":{"step":%d,"task":%q,"run":0,"turn":0},"tokens":[1],"mask":[false],"prompt":%q,"response":%q}`,
			step, task, prompt, response)
	}
	for _, c := range []struct {
		name  string
		o     Options
		rows  []string
		want  string
		alone int
	}{
		{"rows", plain, []string{`{"prompt":"p","answer1":"a","answer2":"b","model1":"m"}`,
			`{"prompt":"q","answer1":"a","answer2":"b"}`}, "p:a/b q:a/b", 0},
		{"the same twice", plain, []string{`{"prompt":"p","answer1":"a","answer2":"b"}`,
			`{"prompt":"p","answer1":"a","answer2":"b"}`}, "p:a/b", 0},
		{"equal answers", plain, []string{`{"prompt":"p","answer1":"a","answer2":"a"}`,
			`{"prompt":"q","answer1":"a","answer2":"b"}`}, "q:a/b", 1},
		{"nested keys", Options{PromptKey: "data.q", AnswerKeys: []string{"data.a"}}, []string{`{"data":{"q":"p","a":["a","b"]}}`}, "p:a/b", 0},
		{"a chat", plain, []string{`{"prompt":[{"role":"user","content":"p"}],"answer1":"a","answer2":"b"}`}, "p:a/b", 0},
		{"experiences", plain, []string{experience("t/0", "p", "a", 1), experience("t/1", "q", "a", 1),
			experience("t/0", "p", "b", 2), experience("t/0", "p", "", 2)}, "p:a/b", 1},
		{"turns of one task", plain, []string{experience("t/0", "p", "a", 1), experience("t/0", "q", "b", 1),
			experience("t/0", "q", "c", 1)}, "q:b/c", 1},
	} {
		got, err := read(t, c.o, c.rows...)
		if err != nil || brief(got) != c.want || got.Alone != c.alone {
			t.Errorf("%s: %s, %d alone, %v; want %s, %d", c.name, brief(got), got.Alone, err, c.want, c.alone)
		}
	}
}

func TestReadReportsBadRows(t *testing.T) {
	for want, rows := range map[string][]string{
		"has no rows":                                  nil,
		"no prompt has two different":                  {`{"prompt":"p","answer1":"a","answer2":"a"}`},
		`rows.jsonl:1: no field "prompt"`:              {`{"question":"p"}`},
		`rows.jsonl:2: no field "answer2"`:             {`{"prompt":"p","answer1":"a","answer2":"b"}`, `{"prompt":"p","answer1":"a"}`},
		"answer1 holds 3, want text":                   {`{"prompt":"p","answer1":3,"answer2":"b"}`},
		"prompt holds 3, want text":                    {`{"prompt":3,"answer1":"a","answer2":"b"}`},
		`prompt holds ["p"], want text or a list of m`: {`{"prompt":["p"],"answer1":"a","answer2":"b"}`},
		"rows before have another kind of prompt": {`{"prompt":"p","answer1":"a","answer2":"b"}`,
			`{"prompt":[{"role":"user","content":"p"}],"answer1":"a","answer2":"b"}`},
		"rows.jsonl:1: not an experience":         {`{"id":3,"tokens":[]}`},
		"answer1 holds null, want text or a list": {`{"prompt":"p","answer1":null,"answer2":"b"}`},
	} {
		if got, err := read(t, plain, rows...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", got, err, want)
		}
	}
}

// A run may store its experiences compressed or as tables.
func TestReadAcceptsArchives(t *testing.T) {
	for _, name := range []string{"kept.jsonl", "kept.jsonl.gz", "kept.jsonl.zst", "kept.parquet", "kept.db"} {
		path, o := filepath.Join(t.TempDir(), name), plain
		var w *archive.Writer
		var err error
		if name != "kept.db" {
			w, err = archive.New(path, "")
		} else {
			path, o.Subset = "sqlite:///"+filepath.ToSlash(path), "trinity_archive"
			w, err = archive.InDatabase(t.Context(), path, "run/output", 0, 0, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		for step := range int64(2) {
			var g trinity.Group
			for run := range 2 {
				id := trinity.ExperienceID{Step: step + 1, Task: fmt.Sprint("t/", step), Run: run}
				g = append(g, &trinity.Experience{ID: id, Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1,
					Prompt: fmt.Sprint("p", step), Response: string(rune('a' + run))})
			}
			if err := w.Write(t.Context(), step+1, []trinity.Group{g}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if d, err := Read(t.Context(), path, o); err != nil || brief(d) != "p0:a/b p1:a/b" {
			t.Errorf("%s: %s, %v", name, brief(d), err)
		}
	}
}

// By default each of many answers is in one pair. Otherwise there are as many pairs as wanted, none
// twice, and all answers are in about the same number of pairs.
func TestPairsOfManyAnswersAreBalanced(t *testing.T) {
	for n := 1; n <= 9; n++ {
		var answers []string
		for i := range n {
			answers = append(answers, fmt.Sprintf("%q", string(rune('a'+i))))
		}
		row := `{"prompt":"p","answers":[` + strings.Join(answers, ",") + `,"a"]}`
		for _, per := range []int{0, 1, 3, 100} {
			o := Options{PromptKey: "prompt", AnswerKeys: []string{"answers"}, PerPrompt: per, Seed: 5}
			d, err := read(t, o, row)
			if n == 1 {
				if err == nil {
					t.Error("one answer makes a pair")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want := min(per, n*(n-1)/2)
			if per == 0 {
				want = n / 2
			}
			in, seen := map[string]int{}, map[[2]string]bool{}
			for _, p := range d.Pairs {
				if p.Answers[0] >= p.Answers[1] || seen[p.Answers] {
					t.Errorf("%d answers: pair %v", n, p.Answers)
				}
				seen[p.Answers] = true
				in[p.Answers[0]]++
				in[p.Answers[1]]++
			}
			least, most := n, 0
			for i := range n {
				k := in[string(rune('a'+i))]
				least, most = min(least, k), max(most, k)
			}
			if len(d.Pairs) != want || most-least > 2 || per == 0 && most > 1 {
				t.Errorf("%d answers, %d asked for: %d pairs, want %d; answers are in %d to %d", n, per, len(d.Pairs), want, least, most)
			}
			if again, err := read(t, o, row); err != nil || brief(again) != brief(d) {
				t.Errorf("%d answers: another time %s, before %s", n, brief(again), brief(d))
			}
		}
	}
}
