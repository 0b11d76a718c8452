package taskset

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/trinitytest"
)

// Operators that are not built in run in Data-Juicer, between the built-in operators. Rows keep
// their order and the fields that Data-Juicer does not know.
func TestForeignOperatorsRunInDataJuicer(t *testing.T) {
	r := sums(t)
	var j *trinitytest.Juicer
	j = trinitytest.NewJuicer(t, func(row map[string]any) (map[string]float64, bool) {
		if _, ok := row["__dj__stats__"]; ok {
			t.Error("Data-Juicer got statistics")
		}
		question := row["question"].(string)
		if len(j.Created) == 2 { // the second time
			return map[string]float64{"perplexity": float64(len(question))}, true
		}
		row["question"] = strings.ReplaceAll(question, "one", "1")
		return map[string]float64{"lang_score": 0.75}, !strings.Contains(question, "short")
	})
	service := &datajuicer.Service{URL: j.URL, Say: func(string) {}}
	r.Juicer = service
	r.Operators = []Operator{
		{"document_deduplicator", args{"lowercase": true}}, {"clean_mapper", args{"a": 1}}, {"lang_filter", nil},
		{"text_length_filter", nil}, {"perplexity_filter", args{"max_ppl": 1500}},
	}
	r.Weights = Weights{}
	plan, err := r.Plan(7)
	if err != nil || !strings.Contains(strings.Join(plan, "\n"),
		"\nclean_mapper, by Data-Juicer\nlang_filter, by Data-Juicer\ntext_length_filter\n") {
		t.Errorf("%q, %v", plan, err)
	}
	h := host(t)
	report, err := r.Make(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if want := "7 read, target_fields dropped 2, document_deduplicator dropped 1, clean_mapper, lang_filter (Data-Juicer) " +
		"dropped 1"; !strings.HasSuffix(report.String(), want) {
		t.Errorf("reported %s", report)
	}
	var questions []any
	for _, row := range lines(t, r.File()) {
		questions = append(questions, row["question"])
		for name := range row {
			if name == numberField || strings.HasSuffix(name, "_detail") || row[name] == nil && name != "priority" {
				t.Errorf("field %s of %v", name, row)
			}
		}
	}
	if want := []any{"1 plus 1 is what?", "two and <two> are together?", "1 plus 1 is how much?"}; !reflect.DeepEqual(questions, want) {
		t.Errorf("wrote %v", questions)
	}
	got := lines(t, r.File())
	if got[0]["id"] == nil || got[1]["id"] != nil || !reflect.DeepEqual(got[1]["__dj__stats__"],
		args{"consumed_cnt": 3.0, "lang_score": 0.75, "perplexity": 27.0, "text_len": 27.0}) {
		t.Errorf("wrote %v", got)
	}
	if want := []any{args{"clean_mapper": args{"a": 1.0}}, args{"lang_filter": nil}}; len(j.Created) != 2 ||
		!reflect.DeepEqual(j.Created[0]["operators"], want) || j.Created[0]["top_k"] != -1.0 {
		t.Errorf("sessions %v", j.Created)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
	if again, err := r.Make(t.Context(), h); err != nil || !again.Reused || len(j.Created) != 2 {
		t.Errorf("%v, %v", again, err)
	}
	r.Juicer = nil
	if _, err := r.Make(t.Context(), h); err == nil || !strings.Contains(err.Error(), `"clean_mapper"`) ||
		!strings.Contains(err.Error(), "server_url") {
		t.Error(err)
	}
}
