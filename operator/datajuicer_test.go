package operator

import (
	"context"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

var quality = args{"operators": []any{args{"llm_quality_score_filter": args{"min_score": 0.5}}}}

// juicing returns the operator with a service that applies edit to each row.
func juicing(t *testing.T, edit func(row map[string]any) (map[string]float64, bool)) (trinity.Operator, *trinitytest.Juicer) {
	t.Helper()
	j := trinitytest.NewJuicer(t, edit)
	s := &datajuicer.Service{URL: j.URL, Say: func(string) {}}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	op := build(t, "data_juicer", quality)
	op.(datajuicer.User).UseService(s)
	return op, j
}

// odd keeps every second row and measures its text.
func odd(row map[string]any) (map[string]float64, bool) {
	suffix := row["eid"].(map[string]any)["suffix"].(string)
	return map[string]float64{"text_len": float64(len(row["response_text"].(string)))}, (suffix[len(suffix)-1]-'0')%2 == 1
}

func juicerStep() []trinity.Group {
	step := []trinity.Group{{}, {}}
	for i, text := range []string{"one", "three", "", "four?"} {
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Step: 7, Task: "t", Run: i % 2}, Tokens: []int32{1, 2, 3}, Mask: []bool{false, false, true},
			Logprobs: []float32{0, 0, -1}, PromptLen: 2,
			Prompt: "say", Response: text, Reward: trinity.NewReward(map[string]float64{"accuracy": float64(i)}),
			Info: map[string]any{"length": i, "note": "kept"},
		}
		if i == 2 {
			e.Reward = trinity.InvalidReward("not scored")
			e.Info = nil
		}
		step[i/2] = append(step[i/2], e)
	}
	return step
}

func TestDataJuicerEditsStepsInOneSession(t *testing.T) {
	var seen []map[string]any
	op, j := juicing(t, func(row map[string]any) (map[string]float64, bool) {
		seen = append(seen, row)
		stats, _ := odd(row)
		if row["response_text"] == "three" {
			row["reward"] = 1.5
		}
		return stats, row["response_text"] != "one"
	})
	step := juicerStep()
	for range 2 { // one session serves all steps
		seen = nil
		kept, metrics, err := op.Process(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) != 2 || len(kept[0]) != 1 || kept[0][0] != step[0][1] || len(kept[1]) != 2 {
			t.Fatalf("it keeps %v", kept)
		}
		if metrics["filtered_count"] != 1 || metrics["seen"] != 1 {
			t.Errorf("metrics %v", metrics)
		}
	}
	if len(j.Created) != 1 || j.Created[0]["pipeline_type"] != "experience" || j.Created[0]["np"] != 4.0 ||
		!reflect.DeepEqual(j.Created[0]["operators"], []any{args{"llm_quality_score_filter": args{"min_score": 0.5}}}) {
		t.Errorf("sessions %v", j.Created)
	}
	want := args{
		"eid": args{"batch": 7.0, "task": 1.0, "run": 1.0, "step": 0.0, "suffix": "3"}, "tokens": []any{1.0, 2.0, 3.0},
		"prompt_length": 2.0, "logprobs": []any{-1.0}, "action_mask": []any{true},
		"reward": 3.0, "prompt_text": "say", "response_text": "four?", "info": args{"length": 3.0, "text_len": 5.0},
	}
	delete(seen[3], "__dj__stats__")
	if !reflect.DeepEqual(seen[3], want) {
		t.Errorf("a row is\n%v\nwant\n%v", seen[3], want)
	}
	if e := step[0][1]; e.Reward.Value != 1.5 || e.Info["text_len"] != 5.0 || e.Info["note"] != "kept" {
		t.Errorf("reward %v, info %v", e.Reward, e.Info)
	}
	if e := step[1][0]; e.Reward.Valid || e.Info["text_len"] != 0.0 {
		t.Errorf("without a reward: %v, info %v", e.Reward, e.Info)
	}
}

// The library datasets of Hugging Face has written the table.
func TestDataJuicerReadsTablesOfDatasets(t *testing.T) {
	table, err := os.ReadFile("testdata/juicer.arrow")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := juicerRows(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	step := juicerStep()
	kept, metrics, err := edited(step, rows)
	if err != nil || len(kept) != 2 || len(kept[0]) != 1 || kept[0][0] != step[0][0] || len(kept[1]) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	// 0 became 1 and 3 stayed 3. The reward of 2.5 goes to an experience that had none.
	if metrics["reward_diff/max"] != 1 || metrics["reward_diff/mean"] != 0.5 {
		t.Errorf("metrics %v", metrics)
	}
	if got := step[0][0].Info; got["llm_quality_score"] != 0.75 || !reflect.DeepEqual(got["llm_quality_record"], args{"rationale": "good"}) {
		t.Errorf("info %v", got)
	}
	if got := step[1][0].Info; len(got) != 0 {
		t.Errorf("info %v of a row without statistics", got)
	}
	for n := 0; n < len(table)-8; n += 101 { // a stream may lack the eight bytes of its end
		if rows, err := juicerRows(t.Context(), table[:n]); err == nil && len(rows) > 0 {
			t.Fatalf("%d of %d bytes are taken for %d rows", n, len(table), len(rows))
		}
	}
	if _, err := juicerRows(t.Context(), []byte("no table")); err == nil {
		t.Error("bytes that are no table were accepted")
	}
}

func TestDataJuicerReportsErrors(t *testing.T) {
	op, j := juicing(t, func(map[string]any) (map[string]float64, bool) { return nil, true })
	if _, _, err := op.Process(t.Context(), juicerStep()); err != nil {
		t.Fatal(err)
	}
	rows := []juicerRow{{ID: juicerID{Suffix: "1"}}, {ID: juicerID{Suffix: "1"}}}
	if _, _, err := edited(juicerStep(), rows); err == nil || !strings.Contains(err.Error(), "two rows for experience 7/t/1/0") {
		t.Error(err)
	}
	rows[1].ID.Suffix = "a1b2c3"
	if _, _, err := edited(juicerStep(), rows); err == nil || !strings.Contains(err.Error(), `eid.suffix "a1b2c3"`) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := op.Process(ctx, juicerStep()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := &datajuicer.Service{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/process_experience" {
			w.WriteHeader(500)
		}
		_, _ = w.Write([]byte(`{"session_id": "x", "error": "Traceback\nKeyError: 'text'"}`))
	}), Say: func(string) {}}
	op.(datajuicer.User).UseService(broken)
	op.(*dataJuicer).session = nil
	if _, _, err := op.Process(t.Context(), juicerStep()); err == nil ||
		!strings.HasSuffix(err.Error(), "/process_experience: 500 Internal Server Error: Traceback KeyError: 'text'") {
		t.Error(err)
	}
	if len(j.Created) != 1 {
		t.Errorf("%d sessions", len(j.Created))
	}
	for _, a := range []args{nil, {"operators": []any{args{"a": args{}, "b": args{}}}}, {"config_path": "x", "np": 0},
		{"config_path": "x", "timeout": 0}} {
		if _, err := registry.Operators.Build("data_juicer", a); err == nil {
			t.Errorf("%v was accepted", a)
		}
	}
}
