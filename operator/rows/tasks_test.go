package rows

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

type args = map[string]any

func build(t *testing.T, name string, a args) trinity.TaskOperator {
	t.Helper()
	op, err := registry.TaskOperators.Build(name, a)
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := op.(ToolUser); ok {
		u.UseTools(Tools{Answers: &answers{}, Parallel: 2, Say: func(string) {}})
	}
	return op
}

// place is the number of a row.
type place string

func (p place) String() string { return string(p) }

func row(fields args) *trinity.TaskRow {
	return &trinity.TaskRow{Row: fields, Stats: map[string]any{}, Where: place("rows.jsonl:1")}
}

func texts(all ...string) []*trinity.TaskRow {
	var rows []*trinity.TaskRow
	for _, s := range all {
		rows = append(rows, row(args{"text": s}))
	}
	return rows
}

// left returns the places of the rows that an operator keeps.
func left(t *testing.T, op trinity.TaskOperator, rows []*trinity.TaskRow) []int {
	t.Helper()
	kept, err := op.Process(t.Context(), slices.Clone(rows))
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for _, r := range kept {
		places = append(places, slices.Index(rows, r))
	}
	return places
}

func TestConformance(t *testing.T) {
	required := map[string]args{
		"regex_filter":                       {"pattern": "(?i)eggs|ha"},
		"script_share_filter":                {"scripts": []any{"Latin"}},
		"language_filter":                    {"lang": []any{"en"}},
		"specified_field_filter":             {"field_key": "level", "target_value": []any{0, 1}},
		"specified_numeric_field_filter":     {"field_key": "level", "min_value": 1},
		"llm_difficulty_score_filter":        scoring(t),
		"llm_quality_score_filter":           scoring(t),
		"human_preference_annotation_mapper": comparing(t),
	}
	for _, name := range registry.TaskOperators.Names() {
		t.Run(name, func(t *testing.T) {
			trinitytest.TaskOperator(t, func() trinity.TaskOperator { return build(t, name, required[name]) })
		})
	}
}

// Another implementation of the definitions gave the recorded values.
func TestMeasuresEqualTheRecordedOnes(t *testing.T) {
	data, err := os.ReadFile("testdata/measures.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stat, op string
		args     args
	}{
		{"text_len", "text_length_filter", nil},
		{"num_words", "words_num_filter", nil},
		{"char_rep_ratio", "character_repetition_filter", args{"rep_len": 3}},
		{"word_rep_ratio", "word_repetition_filter", args{"rep_len": 2}},
		{"special_char_ratio", "special_characters_filter", nil},
		{"alnum_ratio", "alphanumeric_filter", nil},
		{"avg_line_length", "average_line_length_filter", nil},
		{"max_line_length", "maximum_line_length_filter", nil},
	} {
		for _, w := range want {
			r := row(args{"text": w["text"]})
			left(t, build(t, c.op, c.args), []*trinity.TaskRow{r})
			if got := r.Stats[c.stat].(float64); math.Abs(got-w[c.stat].(float64)) > 1e-12 {
				t.Errorf("%s of %q is %g, want %g", c.stat, w["text"], got, w[c.stat])
			}
		}
	}
}

func TestIntervalArgumentsChangeTheRange(t *testing.T) {
	rows := texts("1", "12", "123", "1234")
	for _, c := range []struct {
		args args
		want []int
	}{
		{args{"min_len": 2, "max_len": 3}, []int{1, 2}},
		{args{"min_len": 2}, []int{1, 2, 3}},
		{args{"min_len": 2, "max_len": 3, "min_closed_interval": false}, []int{2}},
		{args{"min_len": 2, "max_len": 3, "max_closed_interval": false}, []int{1}},
		{args{"min_len": 2, "max_len": 3, "reversed_range": true}, []int{0, 1, 2, 3}},
		{args{"min_len": 2, "max_len": 3, "reversed_range": true, "min_closed_interval": false, "max_closed_interval": false}, []int{0, 3}},
	} {
		if got := left(t, build(t, "text_length_filter", c.args), rows); !slices.Equal(got, c.want) {
			t.Errorf("%v keeps %v, want %v", c.args, got, c.want)
		}
	}
}

func TestFieldFiltersKeepRows(t *testing.T) {
	rows := []*trinity.TaskRow{
		row(args{"m": args{"level": int64(3)}, "tags": []any{"a", "b"}}),
		row(args{"m": args{"level": 3.5}, "tags": []any{"a", "c"}}), row(args{"m": args{"level": "4"}, "tags": "b"}),
		row(args{"m": args{"level": nil}, "tags": []any{}}),
	}
	for _, c := range []struct {
		op   string
		args args
		want []int
	}{
		{"specified_field_filter", args{"field_key": "tags", "target_value": []any{"a", "b"}}, []int{0, 2, 3}},
		{"specified_field_filter", args{"field_key": "tags", "target_value": []any{"a", "b"}, "reversed_range": true}, []int{1}},
		{"specified_field_filter", args{"field_key": "m.level", "target_value": []any{3, 4}}, []int{0}},
		{"specified_field_filter", args{"field_key": "m.level", "target_value": []any{"4"}}, []int{2}},
		{"specified_numeric_field_filter", args{"field_key": "m.level", "min_value": 3.2}, []int{1, 2}},
		{"specified_numeric_field_filter", args{"field_key": "m.level", "max_value": 3}, []int{0}},
		{"regex_filter", args{"text_key": "first", "pattern": "."}, nil},
	} {
		op := build(t, c.op, c.args)
		if c.want == nil {
			if _, err := op.Process(t.Context(), rows); err == nil || !strings.Contains(err.Error(), `rows.jsonl:1: no field "first"`) {
				t.Errorf("%s: %v", c.op, err)
			}
			continue
		}
		if got := left(t, op, rows); !slices.Equal(got, c.want) {
			t.Errorf("%s %v keeps %v, want %v", c.op, c.args, got, c.want)
		}
	}
}

func TestTextOperatorsKeepRows(t *testing.T) {
	for _, c := range []struct {
		op   string
		args args
		rows []string
		want []int
	}{
		{"regex_filter", args{"pattern": `\d+`}, []string{"no", "a 1", "22"}, []int{1, 2}},
		{"regex_filter", args{"pattern": `\d+`, "reversed_range": true}, []string{"no", "a 1", "22"}, []int{0}},
		{"language_filter", args{"lang": []any{"deu", "zh"}}, []string{
			"Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May.",
			"Natalia verkaufte im April Haarspangen an 48 ihrer Freunde, und im Mai verkaufte sie halb so viele.",
			"娜塔莉亚四月份卖给了48个朋友发夹，五月份卖的是四月份的一半。", "3 + 4 = ?", "",
		}, []int{1, 2}},
		{"language_filter", args{"lang": []any{"en"}, "min_score": 0.5},
			[]string{"What is 3 + 4?", "How many apples are left in the basket of Mary, who has eaten three of them?"}, []int{1}},
		{"script_share_filter", args{"scripts": []any{"Han", "Hiragana"}}, []string{"鸭子", "ducks 鸭", "ひと 人", "12"}, []int{0, 2}},
		{"document_deduplicator", nil, []string{"a b", " a b\n", "A b", "a b", "c"}, []int{0, 2, 4}},
		{"document_deduplicator", args{"lowercase": true}, []string{"a b", "A b", "A  b"}, []int{0, 2}},
		{"document_deduplicator", args{"ignore_non_character": true}, []string{"a, b 1", "a b 2!", "a ü", "aü", "a € b"}, []int{0, 2, 4}},
		{"document_minhash_deduplicator", nil, []string{paragraph, strings.ToUpper(paragraph), paragraph + " And a half.", other,
			"", "", "one two", "one two three"}, []int{0, 3, 4, 6, 7}},
		{"document_minhash_deduplicator", args{"lowercase": false}, []string{paragraph, strings.ToUpper(paragraph)}, []int{0, 1}},
		{"document_minhash_deduplicator", args{"tokenization": "character", "ignore_pattern": "[0-9]"},
			[]string{"鸭子每天下十六个蛋 1", "鸭子每天下十六个蛋 22", "猫"}, []int{0, 2}},
		{"document_minhash_deduplicator", args{"tokenization": "punctuation", "window_size": 1},
			[]string{"a, b. c! d", "a; b: c? d", "a, b"}, []int{0, 2}},
	} {
		if got := left(t, build(t, c.op, c.args), texts(c.rows...)); !slices.Equal(got, c.want) {
			t.Errorf("%s %v of %.40q keeps %v, want %v", c.op, c.args, c.rows, got, c.want)
		}
	}
}

const (
	paragraph = "Weng earns 12 dollars an hour for babysitting. Yesterday, she just did 50 minutes of babysitting and went " +
		"home early because the children slept. " +
		"Her sister earns the same and did twice as many minutes on the day before. How much did both of them earn on the two days together?"
	other = "A robe takes 2 bolts of blue fiber and half that much white fiber. The tailor makes one robe for each of the " +
		"four singers of the choir, and then " +
		"one more for himself out of what is left. How many bolts in total does it take?"
)

func TestBandsMinimizeTheError(t *testing.T) {
	for _, c := range []struct {
		threshold  float64
		n          int
		bands, row int
		// the integrals with 4,000 midpoints give these
	}{{0.7, 256, 25, 10}, {0.8, 128, 9, 13}, {0.5, 128, 25, 5}, {0.9, 256, 9, 28}, {1, 16, 1, 16}, {0, 16, 16, 1}} {
		if b, r := bandsFor(c.threshold, c.n); b != c.bands || r != c.row {
			t.Errorf("bandsFor(%g, %d) = %d, %d, want %d, %d", c.threshold, c.n, b, r, c.bands, c.row)
		}
	}
}

// The share of equal values is the similarity, within five standard deviations.
func TestSignaturesMeasureSimilarity(t *testing.T) {
	bands, rows := 1000, 1
	d := &minHashDeduplicator{Window: 1, Bands: &bands, Rows: &rows}
	d.begin()
	set := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf("word%d", i))
		}
		return all
	}
	a, b := d.signature(strings.Join(set(0, 60), " ")), d.signature(strings.Join(set(20, 80), " ")) // J = 40/80
	equal := 0
	for i := range a {
		if a[i] == b[i] {
			equal++
		}
	}
	if deviation := math.Sqrt(1000 * 0.5 * 0.5); math.Abs(float64(equal)-500) > 5*deviation {
		t.Errorf("%d of 1000 values are equal, want about 500", equal)
	}
}

func TestDiversityIsTheShareOfNewRuns(t *testing.T) {
	rows := texts("a b c d", "a b c d", "a b c e", "x", "")
	op := build(t, "ngram_diversity_scorer", nil)
	if got := left(t, op, rows); len(got) != len(rows) {
		t.Errorf("kept %v", got)
	}
	for i, want := range []float64{1, 0, 0.5, 1, 1} { // runs: abc bcd; the same; abc bce; x; the empty one
		if got := rows[i].Stats["ngram_diversity"]; got != want {
			t.Errorf("row %d has %v, want %g", i, got, want)
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	for _, c := range []struct {
		op   string
		args args
		want string
	}{
		{"text_length_filter", args{"min_len": 3, "max_len": 2}, "min_len 3 is more than max_len 2"},
		{"character_repetition_filter", args{"rep_len": 0}, "rep_len"},
		{"word_repetition_filter", args{"rep_len": 0}, "rep_len"},
		{"regex_filter", nil, "pattern: write a regular expression"},
		{"regex_filter", args{"pattern": "("}, "missing closing"},
		{"script_share_filter", args{"scripts": []any{"Klingon"}}, "Klingon"},
		{"language_filter", args{}, "lang: name languages, such as [en]"},
		{"language_filter", args{"lang": []any{"xx"}}, `unknown language "xx"`},
		{"language_filter", args{"lang": []any{"en"}, "min_score": 2}, "min_score: must be at least 0 and at most 1"},
		{"specified_field_filter", args{"field_key": "a"}, "target_value"},
		{"specified_numeric_field_filter", nil, "field_key"},
		{"document_minhash_deduplicator", args{"tokenization": "sentencepiece"}, "want space, punctuation or character"},
		{"document_minhash_deduplicator", args{"num_bands": 3}, "needs num_rows_per_band"},
		{"document_minhash_deduplicator", args{"num_bands": 30, "num_rows_per_band": 30}, "256"},
		{"ngram_diversity_scorer", args{"n": 0}, "n: must be at least 1"},
		{"llm_quality_score_filter", args{"enable_vllm": true}, "OpenAI-compatible"},
		{"llm_quality_score_filter", args{"input_keys": []any{"a", "b"}}, "input_keys has 2 entries and field_names 1"},
		{"llm_quality_score_filter", args{"model_params": args{"timeout": 0}}, "timeout"},
		{"llm_quality_score_filter", args{"model_params": args{"base": "x"}}, "base"},
		{"llm_quality_score_filter", args{"input_template": "x"}, "{data}"},
	} {
		if _, err := registry.TaskOperators.Build(c.op, c.args); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: %v, want an error with %q", c.op, c.args, err, c.want)
		}
	}
}
