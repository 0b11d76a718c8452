package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("grader_reward",
		"A grader object of OpenAI's API for reinforcement fine-tuning: string_check, text_similarity, score_model, label_model, python or "+
			"multi. Templates such as {{ item.answer }} and {{ sample.output_text }} stand for columns of the row and for the reply "+
			"(output_text, output_json, output_tools, choices). The `model` of a grader is a name in explorer.auxiliary_models, unless `judge` "+
			"names another one for all. Python runs in the sandbox. A grader that fails gives no reward, and the reason has the name that "+
			"the API has for the failure, such as invalid_variable_error. Parts: the graders by their names.",
		func() trinity.RewardFunc {
			return &graderReward{Timeout: 120, MaxMemory: 2048, Isolation: "full"}
		})
}

// graderReward scores by a grader object.
//
// Unlike OpenAI's API: text_similarity has no cosine, which compares embeddings; bleu is smoothed, and
// meteor compares words as they are written, without synonyms.
type graderReward struct {
	Grader    map[string]any `yaml:"grader" doc:"the grader object"`
	Judge     string         `yaml:"judge" doc:"model that all model graders ask; \"\" is the model that each names"`
	Timeout   float64        `yaml:"timeout" range:"(0,3600]" doc:"seconds of CPU for a python grader"`
	MaxMemory int            `yaml:"max_memory_mb" range:"[32,1048576]" doc:"MiB for a python grader"`
	Isolation string         `yaml:"isolation" enum:"full|best|none" doc:"sandbox of python graders; best takes what works on this machine"`

	top       grader
	askers    []trinity.AskerSpec
	templates []string // of all graders
}

// grader scores a sample.
type grader interface {
	grade(ctx context.Context, s *sample) (float64, error)
}

// failure is why a grader gives no score, by the name that OpenAI's API has for it.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(name, text string, args ...any) error { return &failure{name, fmt.Errorf(text, args...)} }

// graderSpec has the fields of all types of graders.
type graderSpec struct {
	Type     string          `json:"type"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Operator string          `json:"operation"`

	Reference string `json:"reference"`
	Metric    string `json:"evaluation_metric"`

	Model         string          `json:"model"`
	Range         []float64       `json:"range"`
	Sampling      *graderSampling `json:"sampling_params"`
	Labels        []string        `json:"labels"`
	PassingLabels []string        `json:"passing_labels"`

	Source   string `json:"source"`
	ImageTag string `json:"image_tag"`

	Graders json.RawMessage `json:"graders"`
	Formula string          `json:"calculate_output"`
}

// Validate builds the graders.
func (g *graderReward) Validate() error {
	text, err := json.Marshal(g.Grader)
	if err != nil {
		return err
	}
	g.askers, g.templates = nil, nil
	g.top, err = g.build(text, "grader")
	return err
}

// build builds a grader. key is its place, for errors.
func (g *graderReward) build(text json.RawMessage, key string) (built grader, err error) {
	var s graderSpec
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %s", key, strings.TrimPrefix(err.Error(), "json: "))
	}
	if s.Name == "" {
		s.Name = s.Type
	}
	switch s.Type {
	case "string_check":
		built, err = newStringCheck(&s)
	case "text_similarity":
		built, err = newTextSimilarity(&s)
	case "score_model", "label_model":
		built, err = g.newModelGrader(&s)
	case "python":
		built, err = g.newPythonGrader(&s)
	case "multi":
		built, err = g.newMulti(&s, key)
	default:
		err = fmt.Errorf("type: want string_check, text_similarity, score_model, label_model, python or multi, got %q", s.Type)
	}
	var input string
	if json.Unmarshal(s.Input, &input) == nil {
		g.templates = append(g.templates, input, s.Reference)
	}
	if err != nil {
		if s.Type == "multi" {
			return nil, err
		}
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	return &namedGrader{s.Name, built}, nil
}

// Requires implements [trinity.Requirer].
func (g *graderReward) Requires() trinity.Requirements {
	return trinity.Requirements{Askers: g.askers, CheckTask: func(t *trinity.Task) error {
		s := newSample(trinity.RewardInput{Task: t})
		for _, template := range g.templates {
			for _, v := range variable.FindAllStringSubmatch(template, -1) {
				if strings.HasPrefix(v[1], "sample") { // known with the reply
					continue
				}
				if _, err := s.value(v[1]); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// Score implements [trinity.RewardFunc].
func (g *graderReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	s := newSample(in)
	v, err := g.top.grade(ctx, s)
	if err != nil {
		return unscored(err)
	}
	return trinity.Reward{Value: v, Valid: true, Parts: s.parts}, nil
}

// namedGrader notes what a grader says under its name.
type namedGrader struct {
	name string
	by   grader
}

func (n *namedGrader) grade(ctx context.Context, s *sample) (float64, error) {
	v, err := n.by.grade(ctx, s)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = failed("other_error", "the score is %g", v)
	}
	if err != nil {
		return 0, fmt.Errorf("grader %s: %w", n.name, err)
	}
	s.parts[n.name] = v
	return v, nil
}

// stringCheck compares two texts.
type stringCheck struct {
	input, reference string
	holds            func(input, reference string) bool
}

func newStringCheck(s *graderSpec) (*stringCheck, error) {
	holds, ok := map[string]func(a, b string) bool{
		"eq": func(a, b string) bool { return a == b }, "ne": func(a, b string) bool { return a != b },
		"like":  strings.Contains,
		"ilike": func(a, b string) bool { return strings.Contains(strings.ToLower(a), strings.ToLower(b)) },
	}[s.Operator]
	if !ok {
		return nil, fmt.Errorf("operation: want eq, ne, like or ilike, got %q", s.Operator)
	}
	input, err := s.text()
	return &stringCheck{input, s.Reference, holds}, err
}

// text returns an input that is a text.
func (s *graderSpec) text() (text string, err error) {
	if json.Unmarshal(s.Input, &text) != nil || s.Reference == "" {
		return "", errors.New("input and reference: want two texts, such as \"{{ sample.output_text }}\" and \"{{ item.answer }}\"")
	}
	return text, nil
}

func (c *stringCheck) grade(_ context.Context, s *sample) (float64, error) {
	input, reference, err := s.both(c.input, c.reference)
	if err != nil || !c.holds(input, reference) {
		return 0, err
	}
	return 1, nil
}
