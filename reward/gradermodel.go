package reward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// graderSampling is how a model grader samples.
type graderSampling struct {
	Temperature *float32 `json:"temperature"`
	TopP        *float32 `json:"top_p"`
	MaxTokens   int      `json:"max_completions_tokens"`
	Seed        *uint64  `json:"seed"`
	Effort      *string  `json:"reasoning_effort"`
}

// set sets how a model is asked.
func (s *graderSampling) set(a *askArgs) error {
	switch {
	case s.Temperature != nil && !(*s.Temperature >= 0):
		return fmt.Errorf("sampling_params.temperature: want a number of at least 0, got %g", *s.Temperature)
	case s.TopP != nil && !(*s.TopP > 0 && *s.TopP <= 1):
		return fmt.Errorf("sampling_params.top_p: want a number above 0, at most 1, got %g", *s.TopP)
	case s.MaxTokens < 0:
		return fmt.Errorf("sampling_params.max_completions_tokens: want at least 1, got %d", s.MaxTokens)
	case s.Effort != nil:
		return fmt.Errorf("sampling_params.reasoning_effort: the models here have no levels of effort: leave it out, got %q", *s.Effort)
	}
	if s.Temperature != nil {
		a.Temperature = *s.Temperature
	}
	a.topP, a.seed, a.MaxTokens = s.TopP, s.Seed, cmp.Or(s.MaxTokens, a.MaxTokens)
	return nil
}

// modelGrader asks a model for a score or a label.
type modelGrader struct {
	askArgs
	messages    []trinity.Message // templates
	least, most float64
	labels      []string // nil for a score
	passing     []string
}

// newModelGrader builds a score_model or a label_model.
func (g *graderReward) newModelGrader(s *graderSpec) (*modelGrader, error) {
	m := &modelGrader{askArgs: defaultAsking(), least: 0, most: 1}
	m.Judge = cmp.Or(g.Judge, s.Model)
	if s.Sampling != nil {
		if err := s.Sampling.set(&m.askArgs); err != nil {
			return nil, err
		}
	}
	switch {
	case m.Judge == "":
		return nil, errors.New("model: name a model of explorer.auxiliary_models")
	case s.Type == "label_model":
		m.labels, m.passing = s.Labels, s.PassingLabels
		unknown := slices.ContainsFunc(m.passing, func(l string) bool { return !slices.Contains(m.labels, l) })
		if len(m.labels) < 2 || len(m.passing) == 0 || unknown {
			return nil, errors.New("labels: want at least two, and passing_labels among them")
		}
	case s.Range != nil:
		if len(s.Range) != 2 || !(s.Range[0] < s.Range[1]) {
			return nil, fmt.Errorf("range: want the lowest and the highest score, got %v", s.Range)
		}
		m.least, m.most = s.Range[0], s.Range[1]
	}
	var err error
	if m.messages, err = graderMessages(s.Input); err != nil {
		return nil, err
	}
	for _, message := range m.messages {
		g.templates = append(g.templates, message.Content)
	}
	if spec := m.askArgs.Requires().Askers[0]; !slices.Contains(g.askers, spec) {
		if g.Judge == "" {
			spec.Arg = "grader"
		}
		g.askers = append(g.askers, spec)
	}
	return m, registry.Validate(&m.askArgs)
}

// graderMessages reads the messages of a model grader.
func graderMessages(input json.RawMessage) (out []trinity.Message, err error) {
	var list []struct {
		Role    string
		Type    string
		Content json.RawMessage
	}
	if err := json.Unmarshal(input, &list); err != nil || len(list) == 0 {
		return nil, errors.New("input: want a list of messages with role and content")
	}
	for i, m := range list {
		role, ok := map[string]string{"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}[m.Role]
		if !ok {
			return nil, fmt.Errorf("input.%d.role: want user, assistant, system or developer, got %q", i, m.Role)
		}
		text, err := contentText(m.Content)
		if err != nil {
			return nil, fmt.Errorf("input.%d.content: %w", i, err)
		}
		out = append(out, trinity.Message{Role: role, Content: text})
	}
	return out, nil
}

// contentText returns the text of a content: a text, a part, or a list of parts.
func contentText(content json.RawMessage) (text string, err error) {
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		parts = []json.RawMessage{content}
	}
	var b strings.Builder
	for _, p := range parts {
		var part struct{ Type, Text string }
		if json.Unmarshal(p, &text) == nil {
			part.Type, part.Text = "input_text", text
		} else if err := json.Unmarshal(p, &part); err != nil {
			return "", err
		}
		if part.Type != "input_text" && part.Type != "output_text" {
			return "", fmt.Errorf("a part of type %q: models read text", part.Type)
		}
		b.WriteString(part.Text)
	}
	return b.String(), nil
}

func (m *modelGrader) grade(ctx context.Context, s *sample) (score float64, err error) {
	messages := slices.Clone(m.messages)
	for i := range messages {
		if messages[i].Content, err = s.fill(messages[i].Content); err != nil {
			return 0, err
		}
	}
	form := fmt.Sprintf(`Answer with one JSON object: {"score": n}, where n is a number from %g to %g.`, m.least, m.most)
	if m.labels != nil {
		form = fmt.Sprintf(`Answer with one JSON object: {"label": "…"}, where the label is one of: %s.`, strings.Join(m.labels, ", "))
	}
	messages = append(messages, trinity.Message{Role: "user", Content: form})
	if last := len(messages) - 2; messages[last].Role == "user" { // templates want turns to alternate
		messages[last].Content += "\n\n" + form
		messages = messages[:last+1]
	}
	err = m.askAll(ctx, s.in.Host, messages, func(object json.RawMessage) (err error) {
		score, err = m.read(object)
		return err
	}, s.in.Experience)
	return score, m.failed(err)
}

// read reads the score in an answer.
func (m *modelGrader) read(object json.RawMessage) (float64, error) {
	var answer struct {
		Score *float64
		Label string
	}
	if err := json.Unmarshal(object, &answer); err != nil {
		return 0, err
	}
	switch {
	case m.labels == nil && answer.Score != nil && *answer.Score >= m.least && *answer.Score <= m.most:
		return *answer.Score, nil
	case m.labels == nil:
		return 0, fmt.Errorf("the answer has no score from %g to %g", m.least, m.most)
	case !slices.Contains(m.labels, answer.Label):
		return 0, fmt.Errorf("the answer has the label %q, which is not in labels", answer.Label)
	case slices.Contains(m.passing, answer.Label):
		return 1, nil
	}
	return 0, nil
}

// failed names the failure of a question.
func (m *modelGrader) failed(err error) error {
	unanswered := (*trinity.AskError)(nil)
	if !errors.As(err, &unanswered) {
		return err
	}
	name := map[trinity.AskReason]string{
		trinity.AskUnreadable: "model_grader_parse_error", trinity.AskRefused: "model_grader_refusal_error",
	}[unanswered.Reason]
	return &failure{cmp.Or(name, "model_grader_server_error"), err}
}
