package environment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("nemo_gym",
		"A resources server of NeMo Gym, over HTTP; each episode has a session of its own. The rows are those of NeMo Gym's datasets: "+
			"responses_create_params has the messages and the tools, and the server gets the whole row. The server runs the policy's calls. "+
			"A reply without a call is the answer, which the server verifies. Reward: that of the server; parts: its reward_components; "+
			"metrics: the other numbers of its verdict. A judge of the server that failed fails the rollout.",
		func() trinity.EnvironmentOpener { return &nemoGym{MaxSteps: 20, MaxAnswer: 8000} })
}

// nemoGym is a resources server.
type nemoGym struct {
	URL       string            `yaml:"url" doc:"address of the resources server, such as http://localhost:8000"`
	Headers   map[string]string `yaml:"headers" secret:"true" doc:"headers of each request"`
	MaxSteps  int               `yaml:"max_steps" range:"[1,)" doc:"replies at most; after the last one the server verifies what there is"`
	MaxAnswer int               `yaml:"max_answer" range:"[100,)" doc:"bytes of a tool's answer that the policy reads"`
}

// Validate checks the arguments.
func (g *nemoGym) Validate() error {
	u, err := url.Parse(g.URL)
	if err != nil || u.Host == "" || !strings.Contains(" http https ", " "+u.Scheme+" ") {
		return fmt.Errorf("url: want the address of a resources server, such as http://localhost:8000, got %q", g.URL)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (g *nemoGym) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: checkBy(g.begin)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *nemoGym) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return g.begin(t)
}

// begin reads a row.
func (g *nemoGym) begin(t *trinity.Task) (*gymSession, error) {
	const column = "responses_create_params"
	if _, ok := t.Row[column].(map[string]any); !ok {
		return nil, fmt.Errorf("column %q: want an object, as the rows of NeMo Gym's datasets have", column)
	}
	e := &gymSession{args: g, row: t.Row}
	if err := columns(t, map[string]any{column: &e.params}); err != nil {
		return nil, err
	}
	if err := errors.Join(e.readMessages(), e.readTools()); err != nil {
		return nil, fmt.Errorf("column %q: %w", column, err)
	}
	return e, nil
}

// gymSession is one episode.
type gymSession struct {
	inMemory
	args     *nemoGym
	row      map[string]any
	params   openai.ResponsesRequest
	first    []trinity.Message
	names    map[string]bool // of the tools
	schemas  json.RawMessage // nil without tools
	client   retry.Client    // keeps the cookies of the session
	output   []any           // items that the policy and its tools have added
	replies  int
	messages int // items of the kind message
}

// readMessages reads what the policy sees first.
func (e *gymSession) readMessages() error {
	if e.params.Instructions != "" {
		e.first = append(e.first, trinity.Message{Role: "system", Content: e.params.Instructions})
	}
	for i, item := range e.params.Input {
		m := trinity.Message{Role: item.Role}
		parts := item.Content
		switch item.Type {
		case "", "message":
			if m.Role == "developer" {
				m.Role = "system"
			}
			if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
				return fmt.Errorf("input %d: want role system, developer, user or assistant, got %q", i, item.Role)
			}
		case "function_call":
			arguments := json.RawMessage(*cmp.Or(item.Arguments, new("")))
			calls, err := json.Marshal([]trinity.ToolCall{{ID: item.CallID, Name: item.Name, Arguments: arguments}})
			if err != nil {
				return fmt.Errorf("input %d: the arguments of a call are no JSON: %w", i, err)
			}
			m = trinity.Message{Role: "assistant", ToolCalls: calls}
		case "function_call_output":
			m, parts = trinity.Message{Role: "tool", ToolCallID: item.CallID}, item.Output
		case "reasoning":
			continue
		default:
			return fmt.Errorf("input %d: the policy cannot read an item of type %q", i, item.Type)
		}
		for _, part := range parts {
			if !slices.Contains([]string{"input_text", "output_text", "text"}, part.Type) {
				return fmt.Errorf("input %d: the policy cannot read a part of type %q, only text", i, part.Type)
			}
			m.Content += part.Text
		}
		e.first = append(e.first, m)
	}
	if len(e.first) == 0 {
		return errors.New("input: there is no message")
	}
	return nil
}

// readTools reads the tools that the policy may call.
func (e *gymSession) readTools() error {
	e.names = map[string]bool{}
	var all []any
	for _, t := range e.params.Tools {
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools: want type function, got %q", t.Type)
		case slices.Contains([]string{"", "verify", "seed_session", "aggregate_metrics"}, t.Name) || url.PathEscape(t.Name) != t.Name:
			return fmt.Errorf("tools: no tool of the server can have the name %q", t.Name)
		}
		e.names[t.Name] = true
		all = append(all, map[string]any{"type": "function",
			"function": map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Parameters}})
	}
	if all == nil {
		return nil
	}
	var err error
	e.schemas, err = json.Marshal(all)
	return err
}

// post asks the server and returns its answer, whose status accept takes; nil takes 2xx.
func (e *gymSession) post(ctx context.Context, path string, body any, accept func(int) bool) (int, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	for name, value := range e.args.Headers {
		header.Set(name, value)
	}
	url := strings.TrimSuffix(e.args.URL, "/") + path
	request := retry.Request{Method: http.MethodPost, URL: url, Header: header, Body: text, Accept: accept}
	response, err := e.client.Open(ctx, request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	const most = 64 << 20
	answer, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && len(answer) > most {
		err = fmt.Errorf("the answer has more than %d MiB", most>>20)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("POST %s: %w", path, err)
	}
	return response.StatusCode, answer, nil
}

// Reset implements [trinity.Environment].
func (e *gymSession) Reset(ctx context.Context, _ uint64) (o trinity.Observation, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return o, err
	}
	e.client = retry.Client{HTTP: &http.Client{Jar: jar}}
	e.output, e.replies, e.messages = []any{}, 0, 0
	if _, _, err := e.post(ctx, "/seed_session", e.row, nil); err != nil {
		return o, err
	}
	return trinity.Observation{Messages: slices.Clone(e.first), Tools: e.schemas}, nil
}

// Step implements [trinity.Environment].
func (e *gymSession) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.replies++
	if a.Text != "" || len(a.Calls) == 0 {
		e.messages++
		e.output = append(e.output, map[string]any{
			"type": "message", "id": "msg_" + strconv.Itoa(e.messages), "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": a.Text, "annotations": []any{}}},
		})
	}
	for _, call := range a.Calls {
		e.output = append(e.output, map[string]any{
			"type": "function_call", "id": "fc_" + call.ID, "call_id": call.ID, "name": call.Name, "arguments": string(call.Arguments),
			"status": "completed",
		})
	}
	for _, call := range a.Calls {
		said, failed, err := e.call(ctx, call)
		if err != nil {
			return out, err
		}
		e.output = append(e.output, map[string]any{"type": "function_call_output", "call_id": call.ID, "output": said})
		if len(said) > e.args.MaxAnswer {
			said = strings.ToValidUTF8(said[:e.args.MaxAnswer], "") + " …"
		}
		out.Messages = append(out.Messages, answerOf(call, said, nil))
		out.ToolError = out.ToolError || failed
	}
	out.Done = len(a.Calls) == 0
	out.Truncated = !out.Done && e.replies == e.args.MaxSteps
	if out.Done || out.Truncated {
		err = e.verify(ctx, &out)
	}
	return out, err
}

// call runs a call of the policy. What the server answers is the policy's to read, whatever its
// status.
func (e *gymSession) call(ctx context.Context, call trinity.ToolCall) (said string, failed bool, err error) {
	if !e.names[call.Name] {
		return "error: " + noTool(call.Name, e.names).Error(), true, nil
	}
	code, answer, err := e.post(ctx, "/"+call.Name, call.Arguments, func(int) bool { return true })
	return strings.ToValidUTF8(string(answer), "�"), code >= http.StatusBadRequest, err
}

// verify lets the server score the episode.
func (e *gymSession) verify(ctx context.Context, out *trinity.Outcome) error {
	body := map[string]any{}
	for column, value := range e.row {
		body[column] = value
	}
	tools, _ := e.row["responses_create_params"].(map[string]any)["tools"].([]any)
	body["response"] = map[string]any{
		"id": "resp_1", "object": "response", "created_at": 0, "model": "policy", "status": "completed", "output": e.output,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": slices.Concat([]any{}, tools),
	}
	_, answer, err := e.post(ctx, "/verify", body, nil)
	if err != nil {
		return err
	}
	if err := e.read(answer, out); err != nil {
		return fmt.Errorf("POST /verify: %w", err)
	}
	return nil
}

// read reads the server's verdict.
func (e *gymSession) read(answer []byte, out *trinity.Outcome) error {
	var verdict map[string]any
	var known struct {
		Failure    string             `json:"_ng_failure_class"`
		Judge      string             `json:"_ng_failure_judge_error"`
		Components map[string]float64 `json:"reward_components"`
		Reward     *float64           `json:"reward"`
	}
	if err := errors.Join(json.Unmarshal(answer, &verdict), json.Unmarshal(answer, &known)); err != nil {
		return fmt.Errorf("the answer is no verdict: %w: %s", err, retry.OneLine(answer))
	}
	switch {
	case known.Failure != "":
		return fmt.Errorf("the server could not verify: %s: %s", known.Failure, retry.OneLine([]byte(known.Judge)))
	case known.Reward == nil:
		return errors.New(`the answer has no number "reward"`)
	}
	out.Reward, out.Parts, out.Metrics = known.Reward, known.Components, map[string]float64{}
	for name, value := range verdict {
		if _, given := e.row[name]; given || name == "reward" {
			continue
		}
		switch v := value.(type) {
		case float64:
			out.Metrics[name] = v
		case bool:
			out.Metrics[name] = map[bool]float64{true: 1}[v]
		}
	}
	return nil
}
