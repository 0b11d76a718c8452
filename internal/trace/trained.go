package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

const (
	trainedDir  = "trained"
	trainedName = "step-%d.parquet"
)

// Row is a row of a file of a train step: one experience, as one optimizer step saw it. An experience
// that no optimizer step learned from has one row, with Update −1. A list has the length T of Tokens; a
// list that nobody computed is empty.
type Row struct {
	Reward *float64 `json:"reward" parquet:"reward,optional"` // nil without a valid reward
	Sequence
	Streams
	Updated
}

// Sequence is what is known of an experience before training.
type Sequence struct {
	ID             string  `json:"id" parquet:"id"`
	ExploreStep    int64   `json:"explore_step" parquet:"explore_step"`
	Task           string  `json:"task" parquet:"task,dict"`
	Run            int64   `json:"run" parquet:"run"`
	Turn           int64   `json:"turn" parquet:"turn"`
	Prompt         string  `json:"prompt" parquet:"prompt,dict"`
	Truth          string  `json:"truth" parquet:"truth,dict"` // the task's reference answer; "" if it has none
	Response       string  `json:"response" parquet:"response"`
	Parts          string  `json:"reward_parts" parquet:"reward_parts"` // JSON: the reward's parts by name
	Reason         string  `json:"reason" parquet:"reason"`             // why there is no valid reward
	Dropped        string  `json:"dropped" parquet:"dropped,dict"`      // who dropped it before the update; "" means that it was trained on
	Truncated      string  `json:"truncated" parquet:"truncated,dict"`
	OldestVersion  int64   `json:"oldest_version" parquet:"oldest_version"` // of the weights that sampled it
	ModelVersion   int64   `json:"model_version" parquet:"model_version"`   // the newest of them
	PromptTokens   int64   `json:"prompt_tokens" parquet:"prompt_tokens"`
	ResponseTokens int64   `json:"response_tokens" parquet:"response_tokens"`
	Temperature    float32 `json:"temperature" parquet:"temperature"`
	Expert         bool    `json:"expert" parquet:"expert"`
	Chosen         bool    `json:"chosen" parquet:"chosen"`
	Metrics        string  `json:"metrics" parquet:"metrics"`    // JSON
	Info           string  `json:"info" parquet:"info"`          // JSON
	Images         JSON    `json:"images" parquet:"images,dict"` // with their digests and places: a list of [trinity.Image]; "" for none
}

// Streams are the values of each token before the update: log-probabilities and entropies in nats.
type Streams struct {
	Tokens          []int32 `json:"tokens" parquet:"tokens,list" parquet-element:",split"`
	Mask            []bool  `json:"mask" parquet:"mask,list"`
	Logprobs        Floats  `json:"logprobs" parquet:"logprobs,list" parquet-element:",split"` // of the policy that sampled
	OldLogprobs     Floats  `json:"old_logprobs" parquet:"old_logprobs,list" parquet-element:",split"`
	RefLogprobs     Floats  `json:"ref_logprobs" parquet:"ref_logprobs,list" parquet-element:",split"`
	TeacherLogprobs Floats  `json:"teacher_logprobs" parquet:"teacher_logprobs,list" parquet-element:",split"`
	Advantages      Floats  `json:"advantages" parquet:"advantages,list" parquet-element:",split"`
	Returns         Floats  `json:"returns" parquet:"returns,list" parquet-element:",split"`
	Values          Floats  `json:"values" parquet:"values,list" parquet-element:",split"`
	Entropies       Floats  `json:"entropies" parquet:"entropies,list" parquet-element:",split"`
	PolicyWeights   Floats  `json:"policy_weights" parquet:"policy_weights,list" parquet-element:",split"`
}

// Updated is what an optimizer step saw under the weights before it, and the derivatives of the loss
// by that.
type Updated struct {
	Update      int64  `json:"update" parquet:"update"` // the optimizer step within the train step, from 0; −1 for none
	Now         Floats `json:"now_logprobs" parquet:"now_logprobs,list" parquet-element:",split"`
	NowEntropy  Floats `json:"now_entropies" parquet:"now_entropies,list" parquet-element:",split"`
	Divergence  Floats `json:"now_divergences" parquet:"now_divergences,list" parquet-element:",split"`
	DLogprob    Floats `json:"d_logprobs" parquet:"d_logprobs,list" parquet-element:",split"`
	DEntropy    Floats `json:"d_entropies" parquet:"d_entropies,list" parquet-element:",split"`
	DDivergence Floats `json:"d_divergences" parquet:"d_divergences,list" parquet-element:",split"`
}

// Floats are numbers of each token. In JSON, those without a JSON number are the texts "NaN",
// "Infinity" and "-Infinity", as in metrics.jsonl.
type Floats []float32

// MarshalJSON implements [json.Marshaler].
func (v Floats) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, f := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if word := experience.NotFinite(float64(f)); word != "" {
			out = append(out, `"`+word+`"`...)
		} else {
			out = strconv.AppendFloat(out, float64(f), 'g', -1, 32)
		}
	}
	return append(out, ']'), nil
}

// Rows returns the rows of a train step.
func Rows(t trinity.Trained) (rows []Row) {
	for i := range t.Experiences {
		e := &t.Experiences[i]
		known := experience.NewRow(&e.Experience)
		row := Row{Reward: known.Reward, Sequence: sequenceOf(e, &known), Streams: Streams{
			e.Tokens, e.Mask, e.Logprobs, e.OldLogprobs, e.RefLogprobs, e.TeacherLogprobs, e.Advantages, e.Returns, e.Values, e.Entropies,
			e.PolicyWeights,
		}, Updated: Updated{Update: -1}}
		for _, part := range []struct {
			to   *string
			from any
		}{{&row.Parts, e.Reward.Parts}, {&row.Sequence.Metrics, e.Metrics}, {&row.Info, e.Info}} {
			text, err := json.Marshal(part.from)
			if err != nil { // a number that JSON cannot express
				text, _ = json.Marshal(fmt.Sprint(part.from))
			}
			*part.to = string(text)
		}
		if len(e.Updates) == 0 {
			rows = append(rows, row)
		}
		for _, u := range e.Updates {
			row.Updated = Updated{
				int64(u.Index), u.Now.Logprob, u.Now.Entropy, u.Now.Divergence, u.Grads.Logprob, u.Grads.Entropy, u.Grads.Divergence,
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// sequenceOf returns what is known of an experience, most of which its row in an archive has too.
func sequenceOf(e *trinity.TrainedExperience, known *experience.Row) Sequence {
	return Sequence{
		ID: known.ID, ExploreStep: known.Step, Task: known.Task, Run: known.Run, Turn: known.Turn, Prompt: known.Prompt, Truth: e.Truth,
		Response: known.Response, Reason: known.Reason, Dropped: e.Dropped, Truncated: known.Truncated, OldestVersion: known.OldestVersion,
		ModelVersion: known.ModelVersion, PromptTokens: known.PromptTokens, ResponseTokens: known.ResponseTokens,
		Temperature: e.Temperature, Expert: e.IsExpert, Chosen: e.Chosen, Images: imagesOf(e.Images),
	}
}

// pageSize is the size of a page of a column, in bytes. Each of the columns has a buffer of it.
const pageSize = 64 << 10

// table writes the files of train steps. It keeps its buffers from one to the next, because new ones
// for every step would double what a small run takes.
type table struct {
	rows *parquet.GenericWriter[Row] // nil before the first
	out  bytes.Buffer
}

// newTable returns a writer of a file.
func newTable[T any](out io.Writer) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](out, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DataPageVersion(1), parquet.PageBufferSize(pageSize), parquet.WriteBufferSize(0))
}

// write writes the file of a train step and returns its size in bytes.
func (t *table) write(dir string, step trinity.Trained) (size int64, err error) {
	t.out.Reset()
	if t.rows == nil {
		t.rows = newTable[Row](&t.out)
	} else {
		t.rows.Reset(&t.out)
	}
	if _, err := t.rows.Write(Rows(step)); err != nil {
		return 0, err
	}
	if err := t.rows.Close(); err != nil {
		return 0, err
	}
	return int64(t.out.Len()), durable.WriteFile(StepFile(dir, step.Step), t.out.Bytes())
}

// StepFile returns the file of a train step.
func StepFile(dir string, step int64) string {
	return filepath.Join(dir, trainedDir, fmt.Sprintf(trainedName, step))
}

// Steps returns the train steps that a trace has, in order.
func Steps(dir string) (steps []int64, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, trainedDir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var step int64
		if _, err := fmt.Sscanf(e.Name(), trainedName, &step); err == nil && e.Name() == fmt.Sprintf(trainedName, step) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// ReadStep reads what a trace has of a train step.
func ReadStep(dir string, step int64) ([]Row, error) {
	return readTable[Row](StepFile(dir, step), &trainedForm)
}

// ReadAnswer reads the rows of one experience of a train step, which has many of up to 32,768 tokens.
func ReadAnswer(dir string, step int64, id string) (rows []Row, err error) {
	type row struct {
		ID string `parquet:"id"`
	}
	err = openTable(StepFile(dir, step), &trainedForm, func(file *parquet.File) error {
		ids, err := readRows[row](file)
		if err != nil {
			return err
		}
		table := parquet.NewGenericReader[Row](file)
		defer table.Close()
		for at, known := range ids {
			if known.ID != id {
				continue
			}
			if err := table.SeekToRow(int64(at)); err != nil {
				return err
			}
			one := make([]Row, 1)
			if n, err := table.Read(one); n == 0 {
				return cmp.Or(err, io.ErrNoProgress)
			}
			rows = append(rows, one[0])
		}
		return nil
	})
	return rows, err
}

// Score is the reward of an answer to a task; nil without a valid one.
type Score struct {
	ID          string   `parquet:"id"`
	ExploreStep int64    `parquet:"explore_step"`
	Task        string   `parquet:"task,dict"`
	Reward      *float64 `parquet:"reward,optional"`
}

// ReadScores reads the rewards of a train step and nothing else of it. An answer that several optimizer
// steps learned from is there once.
func ReadScores(dir string, step int64) (scores []Score, err error) {
	rows, err := readTable[Score](StepFile(dir, step), &trainedForm)
	seen := map[string]bool{}
	for _, r := range rows {
		if !seen[r.ID] {
			seen[r.ID] = true
			scores = append(scores, r)
		}
	}
	return scores, err
}

// removeAfter removes the train steps after a step.
func removeAfter(dir string, last int64) error {
	steps, err := Steps(dir)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step > last {
			if err := os.Remove(StepFile(dir, step)); err != nil {
				return err
			}
		}
	}
	return nil
}
