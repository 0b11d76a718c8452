package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("openenv",
		"An environment behind an OpenEnv server, over its WebSocket; each episode has a session of its own. The reply is the action: the JSON "+
			"object between ``` and ```, else its text in the field action_field. The policy reads the observation, or its field "+
			"observation_field. A row's column reset has more arguments of the reset. While the server has no free session, an episode waits, "+
			"at most reset_timeout. An action that the server finds invalid goes back to the policy. Words of the messages: {question} of the "+
			"row, if it has one, and {observation}. Metric: valid, the share of valid actions.",
		func() trinity.EnvironmentOpener {
			return &openEnv{ActionField: "message", Ask: "{question}\n\n{observation}", Tell: "{observation}",
				Unread: "The action is not valid: {observation}"}
		})
}

// openEnv is an environment of an OpenEnv server.
type openEnv struct {
	URL              string            `yaml:"url" doc:"address of the server, such as http://localhost:8000"`
	Headers          map[string]string `yaml:"headers" secret:"true" doc:"headers of the request that opens a session"`
	ActionField      string            `yaml:"action_field" doc:"field of an action that takes a reply that is no JSON object"`
	ObservationField string            `yaml:"observation_field" doc:"field of an observation that the policy reads, else all of it"`
	StateField       string            `yaml:"state_field" doc:"field of the server's state that tells states apart"`
	Ask              string            `yaml:"ask" doc:"first message to the policy"`
	Tell             string            `yaml:"tell" doc:"message after each action"`
	Unread           string            `yaml:"unread" doc:"message after an invalid action; {observation} is the server's reason"`
	UnreadReward     float64           `yaml:"unread_reward" doc:"reward of an invalid action"`

	address string
}

// Validate checks the arguments.
func (o *openEnv) Validate() error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || !strings.Contains(" http https ws wss ", " "+u.Scheme+" ") {
		return errors.New("url: want the address of an OpenEnv server, such as http://localhost:8000")
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/ws") {
		u.Path += "/ws"
	}
	o.address = u.String()
	return nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (o *openEnv) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	e := &openEnvSession{args: o, reset: map[string]any{}}
	e.question, _ = t.Prompt() // a row may have none
	return e, columns(t, map[string]any{"reset": &e.reset})
}

// openEnvSession is one episode.
type openEnvSession struct {
	args          *openEnv
	question      string
	reset         map[string]any
	conn          *websocket.Conn
	replies, read int
}

// openEnvError is an error that the server tells.
type openEnvError struct{ Code, Message string }

// Error implements error.
func (e *openEnvError) Error() string { return e.Code + ": " + e.Message }

// Codes of the server's errors that are no failure.
const (
	noSession     = "CAPACITY_REACHED"
	invalidAction = "VALIDATION_ERROR"
)

// openEnvAnswer is the observation of the server.
type openEnvAnswer struct {
	Observation json.RawMessage
	Reward      *json.Number
	Done        bool
}

// Reset implements [trinity.Environment].
func (e *openEnvSession) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	e.replies, e.read = 0, 0
	data := map[string]any{"seed": seed % (1 << 31)} // servers that use numpy take 32 bits at most
	for name, v := range e.reset {
		data[name] = v
	}
	var answer openEnvAnswer
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := e.connect(ctx)
		if err == nil {
			err = e.exchange(ctx, "reset", data, &answer)
		}
		if told := (*openEnvError)(nil); !errors.As(err, &told) || told.Code != noSession {
			if err != nil {
				e.hangUp() // a session that failed serves no later reset
				return trinity.Observation{}, err
			}
			return e.says(ctx, e.args.Ask, e.text(answer.Observation))
		}
		e.hangUp()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return trinity.Observation{}, fmt.Errorf("all sessions of %s are busy (%w): set max_concurrent to their number", e.args.URL, err)
		}
	}
}

// connect opens a session if there is none.
func (e *openEnvSession) connect(ctx context.Context) (err error) {
	if e.conn != nil {
		return nil
	}
	headers := http.Header{}
	for name, value := range e.args.Headers {
		headers.Set(name, value)
	}
	e.conn, _, err = websocket.Dial(ctx, e.args.address, &websocket.DialOptions{HTTPHeader: headers})
	if err == nil {
		e.conn.SetReadLimit(64 << 20)
	}
	return err
}

// exchange sends a message and reads the answer's data.
func (e *openEnvSession) exchange(ctx context.Context, kind string, data, into any) error {
	message := map[string]any{"type": kind}
	if data != nil {
		message["data"] = data
	}
	sent := wsjson.Write(ctx, e.conn, message) // a server without a free session may have answered already
	var answer struct {
		Type string
		Data json.RawMessage
	}
	if err := wsjson.Read(ctx, e.conn, &answer); err != nil {
		return errors.Join(sent, err)
	}
	if answer.Type == "error" {
		told := &openEnvError{}
		if err := json.Unmarshal(answer.Data, told); err != nil {
			return err
		}
		return told
	}
	return json.Unmarshal(answer.Data, into)
}

// text returns what the policy reads of an observation.
func (e *openEnvSession) text(observation json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(observation, &fields) != nil {
		return string(observation)
	}
	shown := observation
	if e.args.ObservationField != "" {
		shown = fields[e.args.ObservationField]
	} else {
		delete(fields, "metadata")
		shown, _ = json.Marshal(fields) // JSON that was just read
	}
	var text string
	if json.Unmarshal(shown, &text) == nil {
		return text
	}
	return string(shown)
}

// says returns what the policy reads, with the server's state.
func (e *openEnvSession) says(ctx context.Context, text, observation string) (trinity.Observation, error) {
	words := strings.NewReplacer("{question}", e.question, "{observation}", observation)
	o := says(strings.TrimSpace(words.Replace(text)), observation)
	if e.args.StateField == "" {
		return o, nil
	}
	var state map[string]json.RawMessage
	if err := e.exchange(ctx, "state", nil, &state); err != nil {
		return o, err
	}
	o.State = string(state[e.args.StateField])
	return o, nil
}

// Step implements [trinity.Environment].
func (e *openEnvSession) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.replies++
	action := map[string]any{}
	if json.Unmarshal([]byte(fencedCode(a.Text, "json")), &action) != nil {
		action = map[string]any{e.args.ActionField: a.Text}
	}
	var answer openEnvAnswer
	err = e.exchange(ctx, "step", action, &answer)
	if told := (*openEnvError)(nil); errors.As(err, &told) && told.Code == invalidAction {
		out.Observation, err = e.says(ctx, e.args.Unread, told.Message)
		out.Reward = &e.args.UnreadReward
	} else if err == nil {
		e.read++
		out.Done = answer.Done
		out.Observation, err = e.says(ctx, e.args.Tell, e.text(answer.Observation))
	}
	if err == nil && answer.Reward != nil {
		var reward float64
		reward, err = answer.Reward.Float64()
		out.Reward = &reward
	}
	out.Metrics = map[string]float64{"valid": float64(e.read) / float64(e.replies)}
	return out, err
}

// hangUp ends the session.
func (e *openEnvSession) hangUp() {
	if e.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = wsjson.Write(ctx, e.conn, map[string]any{"type": "close"}) // the server may have ended the session
	_ = e.conn.CloseNow()
	e.conn = nil
}

// Close implements [trinity.Environment].
func (e *openEnvSession) Close() error {
	e.hangUp()
	return nil
}
