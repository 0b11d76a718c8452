package environment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("cod_terminal",
		"The policy changes files at a simulated terminal, a command a reply, between <answer> and </answer>. The tasks of a pack have the same "+
			"machine: its system, Linux, macOS or Windows, whose commands have names of their own, and where its files are, which no task says. A "+
			"row has a seed, and may have forced_task_type: copy, move, delete, rename, folder or write. Reward: 1 once the files are as wanted, "+
			"else 0; a reply without a command ends the task. Nothing is executed. Words of the messages: {system}, {task}, {steps} that are left, "+
			"{folder}, {output}. Metric: success.",
		func() trinity.EnvironmentOpener {
			return &terminal{MaxSteps: 15, CompositeRatio: 0.5,
				Ask: "You work at a terminal of {system}. {task}\nThink first, then write one command between <answer> and </answer>. You have " +
					"{steps} commands.\n\n{folder}",
				Tell: "{output}\n{folder}\nCommands left: {steps}"}
		})
}

// terminal is the game.
type terminal struct {
	MaxSteps       int     `yaml:"max_steps" range:"[1,)" doc:"commands at most"`
	CompositeRatio float64 `yaml:"composite_ratio" range:"[0,1]" doc:"share of tasks with two changes"`
	Ask            string  `yaml:"ask" required:"write the message to the policy" doc:"first message to the policy"`
	Tell           string  `yaml:"tell" required:"write the message to the policy" doc:"message after each command"`
}

// Requires implements [trinity.Requirer].
func (c *terminal) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := c.OpenEnvironment(context.Background(), t)
		return err
	}}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *terminal) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	task, err := placeOf(t)
	e := &typing{args: c, task: task}
	if err == nil {
		err = columns(t, map[string]any{"forced_task_type": &e.forced})
	}
	if err == nil && e.forced != "" && changes[e.forced] == nil {
		err = fmt.Errorf("column \"forced_task_type\": want one of %s, got %q", strings.Join(slices.Sorted(maps.Keys(changes)), ", "), e.forced)
	}
	return e, err
}

// typing is one episode.
type typing struct {
	inMemory
	args   *terminal
	task   place
	forced string
	system string
	shell  *shell
	wanted *shell
	asks   string
	steps  int // that are left
	heard  string
}

// Reset implements [trinity.Environment].
func (e *typing) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	own, unknowns := e.task.seeds(seed)
	m := drawMachine(newNumpyRandom(unknowns))
	e.system, e.shell, e.wanted = m.system, m.shell, m.shell.copyOf()
	e.steps, e.heard = e.args.MaxSteps, ""
	random := newNumpyRandom(own)
	e.asks = m.change(random, e.forced, e.wanted)
	if random.float64() < e.args.CompositeRatio {
		e.asks += " Also: " + m.change(random, "", e.wanted)
	}
	return e.says(e.args.Ask, ""), nil
}

func (e *typing) says(text, output string) trinity.Observation {
	text = strings.NewReplacer("{system}", e.system, "{task}", e.asks, "{steps}", strconv.Itoa(e.steps), "{output}", output,
		"{folder}", "You are in "+e.shell.shown(e.shell.here)).Replace(text)
	return says(strings.TrimSpace(text), "terminal"+e.heard)
}

// Step implements [trinity.Environment].
func (e *typing) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	_, rest, _ := strings.Cut(a.Text, "<answer>")
	line, _, closed := strings.Cut(rest, "</answer>")
	line = strings.TrimSpace(line)
	reward, output := 0.0, "The reply has no command between <answer> and </answer>."
	e.steps--
	if closed && line != "" {
		var wrong error
		if output, wrong = e.shell.run(line); wrong != nil {
			output = wrong.Error()
		}
		e.heard += "\n" + line
	}
	if e.shell.isLike(e.wanted) {
		reward, output = 1, "Done."
	}
	out.Reward, out.Metrics = &reward, map[string]float64{"success": reward}
	out.Done = reward == 1 || !closed || line == "" || e.steps == 0
	out.Observation = e.says(e.args.Tell, output)
	return out, nil
}
