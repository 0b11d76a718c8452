package annotate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func ptr(s string) *string { return &s }

// lines formats rows like Write, without the braces.
func lines(t *testing.T, rows []any) string {
	t.Helper()
	var out []string
	for _, r := range rows {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Trim(string(text), "{}"))
	}
	return strings.Join(out, " | ")
}

func TestOutcomeGivesTrainingRows(t *testing.T) {
	pair := newPair(Prompt{Text: "q"}, "x", "y")
	for _, c := range []struct {
		name          string
		decided       []Decision
		dpo, kto, sft string
	}{
		{"nothing", nil, "", "", ""},
		{"skipped", []Decision{{Verdict: Skip, Ratings: [2]int{5, 1}, Edits: [2]*string{ptr("z")}}}, "", "", ""},
		{"first", []Decision{{Verdict: First}},
			`"chosen":"x","prompt":"q","rejected":"y"`,
			`"label":true,"prompt":"q","response":"x" | "label":false,"prompt":"q","response":"y"`,
			`"prompt":"q","response":"x"`},
		{"second", []Decision{{Verdict: Second}, {Verdict: Second}, {Verdict: First}, {Verdict: Skip}, {Verdict: Skip}},
			`"chosen":"y","prompt":"q","rejected":"x"`,
			`"label":false,"prompt":"q","response":"x" | "label":true,"prompt":"q","response":"y"`,
			`"prompt":"q","response":"y"`},
		{"no majority", []Decision{{Verdict: Second}, {Verdict: First}}, "", "", ""},
		{"as many ties", []Decision{{Verdict: Second}, {Verdict: Tie}}, "", "", ""},
		{"rated", []Decision{{Verdict: First, Ratings: [2]int{2, 1}}},
			`"chosen":"x","prompt":"q","rejected":"y"`,
			`"label":false,"prompt":"q","response":"x" | "label":false,"prompt":"q","response":"y"`,
			`"prompt":"q","response":"x"`},
		{"rated in the middle", []Decision{{Verdict: Tie, Ratings: [2]int{2, 5}}, {Verdict: Tie, Ratings: [2]int{4, 0}}}, "",
			`"label":true,"prompt":"q","response":"y"`, ""},
		{"edited", []Decision{{Verdict: First, Edits: [2]*string{ptr("z"), ptr("not counted")}}},
			`"chosen":"z","prompt":"q","rejected":"y"`,
			`"label":false,"prompt":"q","response":"y" | "label":true,"prompt":"q","response":"z"`,
			`"prompt":"q","response":"z"`},
		{"edited by the minority", []Decision{{Verdict: First}, {Verdict: Second, Edits: [2]*string{nil, ptr("z")}}, {Verdict: First}},
			`"chosen":"x","prompt":"q","rejected":"y"`,
			`"label":true,"prompt":"q","response":"x" | "label":false,"prompt":"q","response":"y"`,
			`"prompt":"q","response":"x"`},
		{"edited in a tie", []Decision{{Verdict: Tie, Edits: [2]*string{nil, ptr("z")}}}, "",
			`"label":true,"prompt":"q","response":"z"`, `"prompt":"q","response":"z"`},
		{"edited into the other answer", []Decision{{Verdict: First, Edits: [2]*string{ptr("y")}}}, "",
			`"label":false,"prompt":"q","response":"y"`, `"prompt":"q","response":"y"`},
	} {
		o := outcomeOf(pair, c.decided)
		if got := [3]string{lines(t, o.preference()), lines(t, o.labels()), lines(t, o.demonstrations())}; got != [3]string{c.dpo, c.kto, c.sft} {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, [3]string{c.dpo, c.kto, c.sft})
		}
	}
}

func TestChatsStayChats(t *testing.T) {
	chat := make([]trinity.Message, 1, 8) // with spare capacity, which a row must not use for its answer
	chat[0] = trinity.Message{Role: "user", Content: "q"}
	o := outcomeOf(newPair(Prompt{Chat: chat}, "x", "y"), []Decision{{Verdict: Tie, Edits: [2]*string{ptr("v"), ptr("w")}}})
	const asked = `"message":[{"role":"user","content":"q"}`
	want := asked + `,{"role":"assistant","content":"v"}] | ` + asked + `,{"role":"assistant","content":"w"}]`
	if got := lines(t, o.demonstrations()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := lines(t, o.labels()), `"label":true,`+asked+`],"response":"v" | "label":true,`+asked+`],"response":"w"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWriteReplacesTheFiles(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 2)
	say(t, b, "p", "ann", First)
	dir := t.TempDir()
	for range 2 { // the second replaces the first
		got, err := b.Write(dir)
		if err != nil || got != (Written{DPO: 1, KTO: 2, SFT: 1, Decisions: 1}) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	for name, want := range map[string]string{
		"dpo": `{"chosen":"<b>p1","prompt":"p","rejected":"p2"}` + "\n",
		"kto": `{"label":true,"prompt":"p","response":"<b>p1"}` + "\n" + `{"label":false,"prompt":"p","response":"p2"}` + "\n",
		"sft": `{"prompt":"p","response":"<b>p1"}` + "\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name+".jsonl")); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "decisions.jsonl"))
	var d Decision
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || d.Annotator != "ann" || d.Verdict != First || d.Time.IsZero() {
		t.Errorf("%s: %v", text, err)
	}
}
