package workflow

import (
	"maps"
	"testing"
)

// What a workflow gives its environment: its own arguments unless they are null, and environment_args over them.
func TestPreset(t *testing.T) {
	cross := 0.5
	args := argsOf(&struct {
		Rounds int      `yaml:"rounds"`
		Cross  *float64 `yaml:"cross"`
		Gap    *int     `yaml:"gap"`
		hidden int
	}{Rounds: 0, Cross: &cross})
	p := playOf("cod_game_workflow")
	p.EnvironmentArgs = map[string]any{"rounds": 7, "own": "x"}
	p.preset(args)
	want := map[string]any{"rounds": 7, "own": "x", "cross": 0.5}
	if !maps.Equal(p.EnvironmentArgs, want) || p.Environment != "cod_game" {
		t.Errorf("environment %q with %v, want cod_game with %v", p.Environment, p.EnvironmentArgs, want)
	}
}
