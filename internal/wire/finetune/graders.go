package finetune

import (
	"encoding/json"
	"strings"
)

// GraderRun asks for the score of a reply.
type GraderRun struct {
	Grader json.RawMessage `json:"grader"`
	Sample string          `json:"model_sample"`
	Item   map[string]any  `json:"item"`
}

// GraderScore answers a GraderRun.
type GraderScore struct {
	Reward     *float64           `json:"reward"` // null: the grader has failed, which is no reward of 0
	SubRewards map[string]float64 `json:"sub_rewards"`
	Metadata   GraderMetadata     `json:"metadata"`
	TokenUsage map[string]int64   `json:"model_grader_token_usage_per_model"`
}

// GraderMetadata tells of a grader, and of what failed.
type GraderMetadata struct {
	Name          string             `json:"name"`
	Type          string             `json:"type"`
	ExecutionTime float64            `json:"execution_time"` // seconds
	Scores        map[string]float64 `json:"scores"`
	Errors        map[string]any     `json:"errors"`
	SampledModel  *string            `json:"sampled_model_name"` // of a score_model
	TokenUsage    *int64             `json:"token_usage"`        // of all models that were asked
}

// graderErrors are the names of failures.
var graderErrors = []string{
	"formula_parse_error", "invalid_variable_error", "model_grader_parse_error", "model_grader_refusal_error", "model_grader_server_error",
	"other_error", "python_grader_runtime_error", "python_grader_server_error", "sample_parse_error", "truncated_observation_error",
	"unresponsive_reward_error",
}

// detailsOf are the names of the keys that tell more of a failure.
var detailsOf = map[string]string{
	"model_grader_server_error":   "model_grader_server_error_details",
	"python_grader_runtime_error": "python_grader_runtime_error_details",
	"python_grader_server_error":  "python_grader_server_error_type",
}

// GraderErrors returns the object errors for a reason why there is no reward, "" for none. The reason has the name of the
// failure and a colon; one without is an other_error.
func GraderErrors(reason string) map[string]any {
	found, at := "", len(reason)
	for _, name := range graderErrors {
		if i := strings.Index(reason, name+": "); i >= 0 && i < at {
			found, at = name, i
		}
	}
	if found == "" && reason != "" {
		found = "other_error"
	}
	all := map[string]any{}
	for _, name := range graderErrors {
		all[name] = name == found
	}
	for name, key := range detailsOf {
		if all[key] = nil; name == found {
			all[key] = reason[at+len(name+": "):]
		}
	}
	return all
}
