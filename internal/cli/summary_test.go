package cli

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/record"
)

// A run that failed before its first step prints only its error.
func TestFailedRunPrintsNoTable(t *testing.T) {
	for name, c := range map[string]struct {
		stage        record.StageSummary
		ended, shown bool
	}{
		"failed at once":        {record.StageSummary{}, false, false},
		"failed when taken up":  {record.StageSummary{Steps: 3, Model: "m"}, false, false},
		"failed after a step":   {record.StageSummary{Rewards: []float64{1}}, false, true},
		"nothing was left":      {record.StageSummary{}, true, true},
		"already complete":      {record.StageSummary{Skipped: true, Rewards: []float64{1}}, true, true},
		"a stage before failed": {record.StageSummary{Skipped: true, Rewards: []float64{1}}, false, false},
	} {
		var out strings.Builder
		printSummary(&out, &run.Summary{Stages: []record.StageSummary{c.stage}}, c.ended, "")
		if shown := out.Len() > 0; shown != c.shown {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// Numbers of any size fit into the closing table.
func TestClosingTableOfHugeNumbers(t *testing.T) {
	var out strings.Builder
	printSummary(&out, &run.Summary{Stages: []record.StageSummary{{
		Rewards: []float64{1e30, -0.25}, Evals: []record.Eval{{Name: "eval/a/reward/mean@1", Value: 1e30}},
	}}}, true, "")
	for _, want := range []string{"1e+30 → -0.250", "1e+30 (0)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A model that has learned with a system prompt answers as it has learned only with the same.
func TestTheModelIsTalkedToWithItsSystemPrompt(t *testing.T) {
	for system, want := range map[string]string{
		"":                       "chat --model m\n",
		"Don't guess.":           `chat --model m --system 'Don'\''t guess.'` + "\n",
		"Two\nlines":             "chat --model m\n  its prompts began with the system_prompt of the configuration: give it with --system\n",
		strings.Repeat("a", 201): "chat --model m\n  its prompts",
	} {
		var out strings.Builder
		printSummary(&out, &run.Summary{Stages: []record.StageSummary{{Model: "m", Losses: []float64{1}}}}, true, system)
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
