package workflow

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/environment" // that the workflows act on
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// constant is a reward function that many goroutines may use.
type constant struct{}

func (constant) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(map[string]float64{"accuracy": 1}), nil
}

// outside are workflows whose rollouts a program makes, at an endpoint that records them.
var outside = []string{"exec", "http", "python"}

// silent are workflows that do not ask the policy.
var silent = []string{"synthetic_workflow"}

// files are workflows that read files of the user's. They are environment_workflow, whose environment
// reads the files.
var files = []string{"intercode_sql_workflow", "harbor_workflow"}

// trial is how a workflow is tried.
type trial struct {
	args map[string]any
	trinitytest.WorkflowOptions
}

// trials returns how to try each workflow that is not tried with one question and no arguments.
func trials(t *testing.T) map[string]trial {
	guess := map[string]any{"environment": "number_guess", "max_turns": 4}
	guesses := trinitytest.WorkflowOptions{Says: []string{"3", "5", "2", "7", "no idea"}}
	game := trial{guess, guesses}
	react := trial{map[string]any{"tools": []string{"calculator"}, "max_turns": 4}, trinitytest.WorkflowOptions{
		Says: []string{`I add!calculator{"expression": "2+3"}`, `Hm.!abacus{"x": 1}`, "It is 5."},
	}}
	puzzle := trinity.Task{ID: id.Task, Row: map[string]any{"puzzle": "1... .... .... ....", "solution": "1234341221434321"}}
	lake := trinity.Task{ID: id.Task, Row: map[string]any{"size": 4, "p": 0.7, "seed": 42, "index": 0, "uid": "42_4_0.7"}}
	mail := trinity.Task{ID: id.Task, Format: trinity.TaskFormat{PromptKey: "question", ResponseKey: "answer"}, Row: map[string]any{
		"question": "When is lunch?", "answer": "On Friday.", "message_ids": []any{"<a@x>"}, "inbox_address": "ann@x", "query_date": "2001-03-09",
	}}
	ill := task()
	ill.Format.PromptKey = "messages"
	ill.Row["messages"] = []any{map[string]any{"role": "user", "content": "I cough."}}
	ill.Row["decision_truth"], ill.Row["info_truth"] = "continue", "how long it has lasted"
	drive := trinity.Task{ID: id.Task, Row: map[string]any{
		"x0": 0.0, "v0": 0.0, "x_target": 1.0, "v_target": 0.0, "horizon": 10, "control_penalty_coef": 0.1,
	}}
	calls := trial{nil, trinitytest.WorkflowOptions{Task: needed(), Says: []string{`!mail{"q": "Ann"}`, "<think>No.</think>"}}}
	searching := trial{map[string]any{"search": map[string]any{"corpus": corpusFile(t)}}, trinitytest.WorkflowOptions{
		Says: []string{`!search{"query": "sum"}`, `!get_document{"id": "a"}`, "It is 5."},
	}}
	evaluation := task()
	evaluation.Eval = true // nobody trains on what math_eval_workflow samples from a nucleus
	raft := trial{guess, trinitytest.WorkflowOptions{Says: guesses.Says, Untrained: true}}
	return map[string]trial{
		"RAFT_alfworld_workflow": raft, "RAFT_reflect_alfworld_workflow": raft,
		"rubric_judge_openai_workflow": {map[string]any{"judge_model_name": "judge"}, trinitytest.WorkflowOptions{}},
		"search_workflow":              searching, "bcp_simple_react_workflow": searching, "agentscope_v1_react_search_workflow": searching,
		"environment_workflow": game, "step_wise_workflow": game, "alfworld_workflow": game, "step_wise_alfworld_workflow": game,
		"sciworld_workflow": game, "webshop_workflow": game,
		"r3l_workflow": {guess, trinitytest.WorkflowOptions{
			Says: []string{"3", "5", `{"retry_from": 1, "advice": "Guess low."}`}, Untrained: true,
		}},
		"react_workflow": react, "as_react_workflow": react, "agentscope_react_workflow": react,
		"frozen_lake_workflow": {map[string]any{"max_turns": 4}, trinitytest.WorkflowOptions{
			Task: &lake, Says: []string{"```Left```", "```Down```", "I go right"},
		}},
		"sudoku_workflow": {nil, trinitytest.WorkflowOptions{Task: &puzzle, Says: []string{"1234341221434321", "1234"}}},
		"email_search_workflow": {map[string]any{"database": mailFile(t)}, trinitytest.WorkflowOptions{Task: &mail, Says: []string{
			`!search_emails{"keywords": ["lunch"]}`, `!read_email{"message_id": "<a@x>"}`, "On Friday.",
		}}},
		"tool_call_workflow": calls, "toolcall_workflow": calls,
		"cod_optimalcontrol_workflow": {nil, trinitytest.WorkflowOptions{Task: &drive}},
		"learn2ask_workflow":          {nil, trinitytest.WorkflowOptions{Task: ill}},
		"user_simulation_workflow":    {map[string]any{"max_turns": 3}, trinitytest.WorkflowOptions{}},
		"math_eval_workflow":          {nil, trinitytest.WorkflowOptions{Task: evaluation}},
		"thinking_budget_workflow":    {map[string]any{"thinking_token_budget": 3}, trinitytest.WorkflowOptions{}},
	}
}

// Each workflow is tried that asks the policy by itself.
func TestConformance(t *testing.T) {
	all := trials(t)
	for _, name := range registry.Workflows.Names() {
		if slices.Contains(outside, name) || slices.Contains(files, name) || slices.Contains(silent, name) {
			continue
		}
		o := all[strings.TrimPrefix(name, "async_")]
		if o.Says == nil {
			o.Says = []string{"5", "It is 5.", "<think>2 and 3</think>\\boxed{5}", "7"}
		}
		if o.Task == nil {
			o.Task = task()
		}
		o.Reward, o.Host = constant{}, &court{answer: "true"}
		t.Run(name, func(t *testing.T) { trinitytest.Workflow(t, o.WorkflowOptions, build(t, name, o.args)) })
	}
}
