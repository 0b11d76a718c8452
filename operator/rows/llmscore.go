package rows

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// LLMScore asks a model to score rows.
type LLMScore struct {
	Interval      `yaml:",inline"`
	Model         string         `yaml:"api_or_hf_model" required:"name the model" doc:"name of the model on its server"`
	Min           float64        `yaml:"min_score" doc:"least score to keep, 0.2 to 1"`
	Max           float64        `yaml:"max_score" doc:"greatest score to keep"`
	IsHF          bool           `yaml:"is_hf_model" doc:"must be false: true needs a model in Data-Juicer's process"`
	EnableVLLM    bool           `yaml:"enable_vllm" doc:"must be false: true needs a model in Data-Juicer's process"`
	Endpoint      string         `yaml:"api_endpoint" doc:"path below the server's address, or a URL"`
	ResponsePath  string         `yaml:"response_path" doc:"path of the text in the server's answer"`
	InputKeys     []string       `yaml:"input_keys" doc:"fields that the model sees; dots lead into nested objects"`
	FieldNames    []string       `yaml:"field_names" doc:"their names in the question, one for each"`
	SystemPrompt  string         `yaml:"system_prompt" doc:"what to score and how to answer; default: built in"`
	InputTemplate string         `yaml:"input_template" doc:"the question; {data} stands for the fields"`
	FieldTemplate string         `yaml:"field_template" doc:"one field; {field_name} and {field_data} stand for its name and text"`
	TryNum        int            `yaml:"try_num" range:"[1,)" doc:"attempts to get an answer with scores"`
	Server        modelServer    `yaml:"model_params" doc:"base_url, api_key, timeout, max_retries"`
	Sampling      map[string]any `yaml:"sampling_params" doc:"further keys of the request, such as temperature and max_tokens"`
	Dimensions    []string       `yaml:"dim_required_keys" required:"name the dimensions; the score is their mean" doc:"keys of an answer"`

	stat    string // name of the statistic
	tools   Tools
	dropped int // rows without scores
}

// llmScore returns the defaults; stat is the prefix of the statistics stat_score and stat_record.
func llmScore(stat, prompt string, dimensions ...string) LLMScore {
	return LLMScore{
		Interval: closed(), Model: "gpt-4o", Min: 0.5, Max: 1, Endpoint: "/chat/completions", ResponsePath: "choices.0.message.content",
		InputKeys: []string{"text"}, FieldNames: []string{"Text"}, SystemPrompt: prompt,
		InputTemplate: "# Data\n'''\n{data}\n'''", FieldTemplate: "**{field_name}**\n{field_data}",
		TryNum: 3, Server: modelServer{Timeout: 120, MaxRetries: 5}, Dimensions: dimensions, stat: stat,
	}
}

// answerForm ends the built-in prompts.
func answerForm(dimensions ...string) string {
	return "Answer with one JSON object and nothing else: {\"dimension_scores\": {\"" + strings.Join(dimensions, "\": n, \"") +
		"\": n}, \"flags\": [short words for what is remarkable], \"rationale\": \"one or two sentences\"}, where every n is a " +
		"number from 1 to 5."
}

// llmDoc ends the descriptions of all filters that ask a model.
const llmDoc = "The score is the mean of the dimensions, divided by 5. Any OpenAI-compatible server will do. The " +
	"operator asks num_process questions at once. It stores every answer that it can parse by model, " +
	"question and sampling parameters, so that it asks nothing twice, even after a kill. If it cannot " +
	"parse an answer in try_num attempts, it drops the row and asks again in the next run. The log says " +
	"how many rows it dropped, with some examples. Unlike Data-Juicer: such a row does not get the score " +
	"0, because then it would count as the easiest or the worst of all; and a server that does not " +
	"answer ends the run."

// Validate checks what it can without the server.
func (f *LLMScore) Validate() error {
	switch {
	case f.IsHF || f.EnableVLLM:
		return errors.New("is_hf_model and enable_vllm load a model into Data-Juicer: leave both out, and serve the model with " +
			"an OpenAI-compatible server")
	case len(f.InputKeys) == 0 || len(f.InputKeys) != len(f.FieldNames):
		return fmt.Errorf("input_keys has %d entries and field_names %d: want at least one key, and a name for each",
			len(f.InputKeys), len(f.FieldNames))
	case !strings.Contains(f.InputTemplate, "{data}"):
		return errors.New("input_template lacks {data}")
	}
	return ordered("min_score", f.Min, "max_score", f.Max)
}

// UseTools implements ToolUser.
func (f *LLMScore) UseTools(t Tools) { f.tools = t }

// Process implements trinity.TaskOperator.
func (f *LLMScore) Process(ctx context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	address, err := f.Server.address(f.Endpoint)
	if err != nil {
		return nil, err
	}
	unread := make([]error, len(rows))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.tools.Parallel)
	for i, r := range rows {
		group.Go(func() (err error) {
			unread[i], err = f.score(ctx, address, r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var kept []*trinity.TaskRow
	for i, r := range rows {
		if unread[i] != nil {
			f.drop(r, unread[i])
		} else if f.keeps(r.Stats[f.stat+"_score"].(float64), f.Min, f.Max) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// dropExamples bounds the log lines on rows dropped without scores; Finish counts the others.
const dropExamples = 3

func (f *LLMScore) drop(r *trinity.TaskRow, unread error) {
	if f.dropped++; f.dropped <= dropExamples {
		f.tools.Say(fmt.Sprintf("%s: dropped, because %s gave no scores in %d answers: %v", r.Where, f.Model, f.TryNum, unread))
	}
}

// Finish reports how many rows the operator dropped.
func (f *LLMScore) Finish() {
	if f.dropped > dropExamples {
		f.tools.Say(fmt.Sprintf("dropped %d rows in all, because %s gave no scores in %d answers to each", f.dropped, f.Model, f.TryNum))
	}
}

// score asks the model until it can read the scores of a row. unread says why it could not.
func (f *LLMScore) score(ctx context.Context, address string, r *trinity.TaskRow) (unread, err error) {
	question, err := f.question(r)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(question))
	known, ok, err := f.tools.Answers.Answer(key)
	if err != nil {
		return nil, err
	}
	if ok && f.note(r, string(known)) == nil { // the stored answer may lack a dimension
		return nil, nil
	}
	for range f.TryNum {
		answer, err := f.ask(ctx, address, question)
		if err != nil {
			return nil, err
		}
		if unread = f.note(r, answer); unread == nil {
			return nil, f.tools.Answers.Put(key, []byte(answer))
		}
	}
	return unread, nil
}

// note writes the scores of an answer to the statistics of the row.
func (f *LLMScore) note(r *trinity.TaskRow, answer string) error {
	record, score, err := f.read(answer)
	if err == nil {
		r.Stats[f.stat+"_score"], r.Stats[f.stat+"_record"] = score, record
	}
	return err
}

// question returns the body of the request for a row.
func (f *LLMScore) question(r *trinity.TaskRow) ([]byte, error) {
	var parts []string
	for i, key := range f.InputKeys {
		v, err := field(r, key)
		if err != nil {
			return nil, err
		}
		text := "null"
		if v != nil {
			if text, err = (&trinity.Task{Row: r.Row}).Text(key); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Where, err)
			}
		}
		parts = append(parts, strings.NewReplacer("{field_name}", f.FieldNames[i], "{field_data}", text).Replace(f.FieldTemplate))
	}
	body := map[string]any{}
	maps.Copy(body, f.Sampling)
	body["model"] = f.Model
	body["messages"] = []any{
		map[string]any{"role": "system", "content": f.SystemPrompt},
		map[string]any{"role": "user", "content": strings.ReplaceAll(f.InputTemplate, "{data}", strings.Join(parts, "\n\n"))},
	}
	return json.Marshal(body) // sorts the keys, so that equal questions are equal keys of the answer store
}

// ask returns the model's answer to a question.
func (f *LLMScore) ask(ctx context.Context, address string, question []byte) (string, error) {
	body, err := f.Server.client().Post(ctx, address, question)
	if err != nil {
		return "", err
	}
	answer, err := at(body, f.ResponsePath)
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	return answer, nil
}

// read finds the scores in an answer's first JSON object that has any.
func (f *LLMScore) read(answer string) (record map[string]any, score float64, err error) {
	for i := range len(answer) {
		if answer[i] != '{' {
			continue
		}
		record = nil
		if json.NewDecoder(strings.NewReader(answer[i:])).Decode(&record) != nil {
			continue
		}
		scores, ok := record["dimension_scores"].(map[string]any)
		if !ok {
			continue
		}
		sum := 0.0
		for _, d := range f.Dimensions {
			v, ok := scores[d].(float64)
			if !ok || !(v >= 1 && v <= 5) {
				return nil, 0, fmt.Errorf("%s is %v, want a number from 1 to 5", d, scores[d])
			}
			sum += v
		}
		score = sum / float64(len(f.Dimensions)) / 5
		return record, math.Round(score*1e12) / 1e12, nil
	}
	return nil, 0, fmt.Errorf("no JSON object with dimension_scores: %s", retry.OneLine([]byte(answer)))
}
