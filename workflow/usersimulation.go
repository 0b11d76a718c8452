package workflow

import (
	"context"
	"errors"
	"strings"

	"github.com/trinity-go/trinity"
)

const userSystem = "You play a user who talks to an assistant. Write only what the user says, and never answer as the assistant. " +
	"Say what you want bit by bit, as people do. If the assistant has done what you want, or cannot, write " + doneMark + ".\nWhat you want:\n"

const doneMark = "<done>"

func init() {
	register("user_simulation_workflow",
		"The policy talks with a user whom a model of explorer.auxiliary_models plays. The user knows the text at format.prompt_key, which "+
			"the policy does not read: it reads the task's system prompt, and what the user says. The chat ends when the user writes <done>, or "+
			"after max_turns replies. The task's reward function scores the whole chat. Its column `first_message`, if the row has one, is "+
			"what the user says first.",
		func() trinity.Workflow {
			return &userSimulation{User: "0", Instruction: userSystem, MaxTurns: 10, AnswerTimeout: 120, Temperature: 1}
		})
}

// userSimulation lets the policy talk with a simulated user.
type userSimulation struct {
	User          string  `yaml:"user" required:"name a model of explorer.auxiliary_models, or policy" doc:"model that plays the user"`
	Instruction   string  `yaml:"instruction" doc:"what that model is told; the text at format.prompt_key follows"`
	Temperature   float32 `yaml:"user_temperature" range:"[0,inf]" doc:"at which the user speaks"`
	MaxTurns      int     `yaml:"max_turns" range:"[1,)" doc:"replies of the policy at most"`
	AnswerTimeout float64 `yaml:"answer_timeout" range:"(0,inf]" doc:"seconds that the user may take to answer"`
	Steps         bool    `yaml:"steps" doc:"each reply is an experience of its own, for algorithms that know steps"`
}

// Requires implements [trinity.Requirer].
func (w *userSimulation) Requires() trinity.Requirements {
	return trinity.Requirements{
		Reward: true, Turns: true, Steps: w.Steps, CheckTask: checkPrompt, Askers: []trinity.AskerSpec{{Name: w.User, Arg: "user"}},
	}
}

// Run implements [trinity.Workflow].
func (w *userSimulation) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	user, err := r.Host.Asker(w.User)
	if err != nil {
		return nil, err
	}
	play := defaultPlay()
	play.Environment, play.MaxTurns = "of the simulated user", w.MaxTurns
	play.ResetTimeout, play.StepTimeout = w.AnswerTimeout, w.AnswerTimeout
	play.opener = simulatedUser{w, user}
	return play.finish(ctx, r, w.Steps)
}

// simulatedUser is an environment that is a user.
type simulatedUser struct {
	args *userSimulation
	user trinity.Asker
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (u simulatedUser) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return &talk{simulatedUser: u, task: t}, nil
}

// talk is one chat with the user. Seen from the user's side, the policy's replies are questions.
type talk struct {
	simulatedUser
	task *trinity.Task
	chat []trinity.Message
}

// Reset implements [trinity.Environment].
func (t *talk) Reset(ctx context.Context, _ uint64) (o trinity.Observation, err error) {
	wants, err := t.task.Prompt()
	if err != nil {
		return o, err
	}
	system, err := t.task.System()
	if err != nil {
		return o, err
	}
	if system != "" {
		o.Messages = []trinity.Message{{Role: "system", Content: system}}
	}
	t.chat = []trinity.Message{{Role: "system", Content: t.args.Instruction + wants}, {Role: "user", Content: "Hello! What can I do for you?"}}
	first, err := t.task.Text("first_message")
	if err != nil {
		if first, _, err = t.says(ctx); err != nil {
			return o, err
		}
	} else {
		t.chat = append(t.chat, trinity.Message{Role: "assistant", Content: first})
	}
	if first == "" {
		return o, errors.New("the simulated user says nothing")
	}
	o.Messages = append(o.Messages, trinity.Message{Role: "user", Content: first})
	return o, nil
}

// says returns what the user says next, and whether the user is done.
func (t *talk) says(ctx context.Context) (text string, done bool, err error) {
	answer, err := t.user.Ask(ctx, t.chat, trinity.AskOptions{Temperature: &t.args.Temperature})
	if err != nil {
		return "", false, err
	}
	text, _, done = strings.Cut(answer.Message.Content, doneMark)
	text = strings.TrimSpace(text)
	t.chat = append(t.chat, trinity.Message{Role: "assistant", Content: text})
	return text, done, nil
}

// Step implements [trinity.Environment].
func (t *talk) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	t.chat = append(t.chat, trinity.Message{Role: "user", Content: a.Text})
	text, done, err := t.says(ctx)
	if err != nil {
		return out, err
	}
	if out.Done = done || text == ""; !out.Done {
		out.Messages = []trinity.Message{{Role: "user", Content: text}}
	}
	return out, nil
}

// Close implements [trinity.Environment].
func (*talk) Close() error { return nil }
