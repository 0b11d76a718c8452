package environment

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

//go:embed python/textworld.py
var textworldScript string

func init() {
	registry.Environments.Register("textworld",
		"A game of TextWorld in a Python process: the file that game or the row's column game names (.z8, or .tw-pddl of ALFWorld), else one "+
			"that is made for the episode's seed, without a network. The policy writes a command between ``` and ```, or nothing else. "+
			"Reward: the points of each command. Words of the messages: {observation}, {commands} that are possible, {steps} that are left. "+
			"Metrics: success; valid, the share of the replies with a command.",
		func() trinity.EnvironmentOpener {
			return &textWorld{Python: bridge.Python{Python: "python3"}, tabular: tabular{
				Ask: "You play a text adventure. Think first, then write one command between ``` and ```, such as ```look```.\n\n" +
					"{observation}\n\nPossible commands: {commands}",
				Tell: "{observation}\n\nPossible commands: {commands}", Unread: unread, MaxSteps: 50}}
		})
}

// textWorld plays games of TextWorld.
type textWorld struct {
	bridge.Python `yaml:",inline"`
	tabular       `yaml:",inline"`
	Game          string         `yaml:"game" doc:"file of a game; without it, and without the row's column, games are made"`
	Make          map[string]any `yaml:"make" doc:"fields of textworld.GameOptions for games that are made, such as nb_rooms and quest_length"`
	Folder        string         `yaml:"folder" doc:"folder that keeps the games that were made; without it each process makes its own"`
}

// Validate checks the arguments.
func (w *textWorld) Validate() error {
	return w.Has("textworld")
}

// Requires implements [trinity.Requirer].
func (w *textWorld) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(w.gameOf)}
}

// gameOf returns the file of a task's game, or "" if a game is made.
func (w *textWorld) gameOf(t *trinity.Task) (string, error) {
	game := w.Game
	if err := columns(t, map[string]any{"game": &game}); err != nil || game == "" {
		return "", err
	}
	if _, err := os.Stat(game); err != nil {
		return "", fmt.Errorf("game: %w", err)
	}
	return game, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (w *textWorld) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	e := &adventure{args: w, Bridge: w.Open(textworldScript, 1)}
	if err := e.Reuse(ctx, t); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// adventure is one episode, and after a Reuse another one.
type adventure struct {
	args *textWorld
	*bridge.Bridge
	file        string
	now         adventureState
	steps, read int
}

// adventureState is what the other side says of a state.
type adventureState struct {
	Text            string
	Commands        []string
	Won, Lost, Done bool
	Reward          float64
}

// Reuse implements [trinity.Reusable].
func (e *adventure) Reuse(_ context.Context, t *trinity.Task) (err error) {
	e.file, err = e.args.gameOf(t)
	return err
}

// Reset implements [trinity.Environment].
func (e *adventure) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	e.steps, e.read, e.now = 0, 0, adventureState{}
	options := e.args.Make
	if options == nil {
		options = map[string]any{}
	}
	err := e.Call(ctx, map[string]any{"do": "reset", "game": e.file, "make": options, "seed": seed, "folder": e.args.Folder}, &e.now)
	return e.says(e.args.Ask), err
}

// says returns what the policy reads.
func (e *adventure) says(text string) trinity.Observation {
	return says(text, e.now.Text+"\n"+strings.Join(e.now.Commands, "\n"), "{observation}", e.now.Text,
		"{commands}", strings.Join(e.now.Commands, ", "), "{steps}", strconv.Itoa(e.args.MaxSteps-e.steps))
}

// Step implements [trinity.Environment].
func (e *adventure) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.steps++
	reward, text := e.args.UnreadReward, strings.TrimSpace(e.args.Unread+"\n"+e.args.Tell)
	if command := strings.Join(strings.Fields(fenced(a.Text)), " "); command != "" {
		e.read++
		e.now = adventureState{}
		if err := e.Call(ctx, map[string]any{"do": "step", "command": command}, &e.now); err != nil {
			return out, err
		}
		reward, text = e.now.Reward, e.args.Tell
	}
	out.Observation, out.Reward, out.Done = e.says(text), &reward, e.now.Done
	out.Truncated = !out.Done && e.steps == e.args.MaxSteps
	out.Metrics = map[string]float64{"valid": float64(e.read) / float64(e.steps), "success": asNumber(e.now.Won)}
	return out, nil
}
