package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("cod_frozenlake_obscure_workflow",
		"The same on lakes where the policy acts by numbers: it writes Direction 1, 2, 3 or 4 and does not know where each leads. mapping_mode "+
			"per_pack draws that for each pack, per_task for each row (columns action_mapping, mapping_index, mapping_seed, else seed).",
		func() trinity.Workflow {
			return &obscuredLake{packLake: defaultPackLake(), MappingMode: "global"}
		})
}

// obscuredLake walks over lakes without knowing where a direction leads.
type obscuredLake struct {
	packLake      `yaml:",inline"`
	MappingMode   string         `yaml:"mapping_mode" enum:"global|per_pack|per_task" doc:"who has the same directions"`
	GlobalMapping map[int]string `yaml:"global_mapping" doc:"global: Up, Right, Down or Left for 1 to 4; default Down, Right, Up, Left"`
	MappingIndex  int            `yaml:"mapping_index" range:"[0,23]" doc:"global: which order of Down, Right, Up and Left"`
}

const obscureAct = "You are P on a frozen lake. Reach the goal G and step into no hole O; _ is ice.{slippery}\nYou move by one of four " +
	"directions. You do not know where each leads. Think first, then write Direction 1, Direction 2, Direction 3 or Direction 4 between " +
	"``` and ```. You have {steps} steps.\n\n{map}"

// Validate builds the environment.
func (w *obscuredLake) Validate() error {
	if w.GlobalMapping != nil {
		if _, err := mappingOf(w.GlobalMapping); err != nil {
			return fmt.Errorf("global_mapping: %w", err)
		}
	}
	err := w.build(map[string]any{"ask": obscureAct, "unread": "The reply names no direction."})
	if err == nil {
		w.opener = obscureOpener{w.opener, w}
	}
	return err
}

var fourWays = []string{"Down", "Right", "Up", "Left"}

// orderOf returns one of the 24 orders of the four ways, in the order of their places.
func orderOf(index int) (order []string) {
	left := append([]string(nil), fourWays...)
	for n := 6; len(left) > 0; n /= max(1, len(left)) {
		i := index / n % len(left)
		index %= n
		order = append(order, left[i])
		left = append(left[:i:i], left[i+1:]...)
	}
	return order
}

// mappingOf returns the ways of the directions 1 to 4.
func mappingOf(named map[int]string) (ways []string, err error) {
	seen := map[string]bool{}
	for n := 1; n <= len(fourWays); n++ {
		for _, way := range fourWays {
			if strings.EqualFold(named[n], way) && !seen[way] {
				ways, seen[way] = append(ways, way), true
			}
		}
	}
	if len(ways) != len(fourWays) || len(named) != len(fourWays) {
		return nil, fmt.Errorf("want Up, Right, Down and Left once each for 1 to 4, got %v", named)
	}
	return ways, nil
}

// ways returns where the directions 1 to 4 lead in a task.
func (w *obscuredLake) ways(t *trinity.Task) ([]string, error) {
	number := func(column string) (uint64, bool) {
		text, err := t.Text(column)
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		return n, err == nil
	}
	switch w.MappingMode {
	case "global":
		if w.GlobalMapping != nil {
			return mappingOf(w.GlobalMapping)
		}
		return orderOf(w.MappingIndex), nil
	case "per_task":
		if own, ok := t.Field("action_mapping"); ok && own != nil {
			named := map[int]string{}
			if byName, ok := own.(map[string]any); ok {
				for key, way := range byName {
					n, _ := strconv.Atoi(key)
					named[n], _ = way.(string)
				}
			}
			ways, err := mappingOf(named)
			if err != nil {
				err = fmt.Errorf("column %q: %w", "action_mapping", err)
			}
			return ways, err
		}
		if n, ok := number("mapping_index"); ok {
			return orderOf(int(n % 24)), nil
		}
	}
	columns := []string{"mapping_seed", "seed"}
	if w.MappingMode == "per_pack" {
		columns = []string{"pack_seed", "seed"}
	}
	for _, column := range columns {
		if seed, ok := number(column); ok {
			return orderOf(rand.New(rand.NewPCG(seed, 0)).IntN(24)), nil
		}
	}
	return orderOf(0), nil
}

// Requires implements [trinity.Requirer].
func (w *obscuredLake) Requires() trinity.Requirements {
	needs := w.packLake.Requires()
	check := needs.CheckTask
	needs.CheckTask = func(t *trinity.Task) error {
		if _, err := w.ways(t); err != nil {
			return err
		}
		return check(t)
	}
	return needs
}

// obscureOpener opens lakes on which directions are numbers.
type obscureOpener struct {
	trinity.EnvironmentOpener
	of *obscuredLake
}

// Requires implements [trinity.Requirer].
func (o obscureOpener) Requires() trinity.Requirements {
	return trinity.RequirementsOf(o.EnvironmentOpener)
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (o obscureOpener) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	ways, err := o.of.ways(t)
	if err != nil {
		return nil, err
	}
	env, err := o.EnvironmentOpener.OpenEnvironment(ctx, t)
	return &obscureLake{env, ways}, err
}

// obscureLake is an episode in which directions are numbers.
type obscureLake struct {
	trinity.Environment
	ways []string
}

var directionPattern = regexp.MustCompile(`(?i)^\W*direction\s+([1-4])\W*$`)

// Step implements [trinity.Environment].
func (l *obscureLake) Step(ctx context.Context, a trinity.Action) (trinity.Outcome, error) {
	text := a.Text
	if parts := strings.Split(text, "```"); len(parts) > 2 {
		text = parts[len(parts)-2-(1-len(parts)%2)]
	}
	a.Text = "?" // names no way of the lake's own
	if m := directionPattern.FindStringSubmatch(text); m != nil {
		a.Text = l.ways[m[1][0]-'1']
	}
	return l.Environment.Step(ctx, a)
}
