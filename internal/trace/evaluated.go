package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

const (
	evaluatedDir = "evaluated"
	parquetForm  = ".parquet"
)

// Who made an evaluation, in the name of its file.
const (
	OfRun   = "step"  // the run's explorer; others have names of their own
	OfBench = "bench" // mode bench
)

// Evaluated is an answer to a held-out task, or a rollout that failed: a row of a file of an evaluation, and a line of
// the answers that trinity eval writes.
type Evaluated struct {
	Taskset        string   `json:"taskset" parquet:"taskset,dict"`
	Row            int64    `json:"row" parquet:"row"`                    // of the taskset, from 0 on
	Run            *int64   `json:"run,omitempty" parquet:"run,optional"` // repeat of the row; nil if it failed
	Turn           int64    `json:"turn,omitempty" parquet:"turn"`
	Prompt         string   `json:"prompt,omitempty" parquet:"prompt,dict"`
	Truth          string   `json:"truth" parquet:"truth,dict"`
	Response       string   `json:"response" parquet:"response"`
	Chat           JSON     `json:"chat,omitempty" parquet:"chat"` // with the last turn of several: a [Said] for each message
	Reward         *float64 `json:"reward" parquet:"reward,optional"`
	Parts          JSON     `json:"parts,omitempty" parquet:"reward_parts"`
	Reason         string   `json:"reason,omitempty" parquet:"reason"` // why there is no reward
	Truncated      string   `json:"truncated,omitempty" parquet:"truncated,dict"`
	PromptTokens   int64    `json:"prompt_tokens,omitempty" parquet:"prompt_tokens"`
	ResponseTokens int64    `json:"response_tokens,omitempty" parquet:"response_tokens"`
	Step           int64    `json:"step,omitempty" parquet:"step"`
	ModelVersion   int64    `json:"model_version,omitempty" parquet:"model_version"` // the newest that sampled it
}

// JSON is a text of JSON, or "".
type JSON string

// MarshalJSON implements [json.Marshaler].
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(string(j), "null")), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (j *JSON) UnmarshalJSON(text []byte) error {
	if *j = JSON(text); *j == "null" {
		*j = ""
	}
	return nil
}

// EvaluatedOf returns the rows of a task after its last rollout: one for each experience of the group, and one for each
// failed rollout.
func EvaluatedOf(step int64, task *trinity.Task, group trinity.Group, failed []error, texts Tokens) (rows []Evaluated) {
	row := Evaluated{Taskset: task.Taskset, Row: int64(task.Index), Truth: experience.Truth(task), Step: step}
	for i, e := range group {
		known, one := experience.NewRow(e), row
		one.Run, one.Turn, one.Prompt, one.Response = &known.Run, known.Turn, known.Prompt, known.Response
		one.Truth = cmp.Or(e.Truth, one.Truth)
		one.Reward, one.Reason, one.Truncated = known.Reward, known.Reason, known.Truncated
		one.PromptTokens, one.ResponseTokens, one.ModelVersion = known.PromptTokens, known.ResponseTokens, known.ModelVersion
		if e.Reward.Parts != nil {
			if text, err := json.Marshal(e.Reward.Parts); err == nil { // else a part is not finite
				one.Parts = JSON(text)
			}
		}
		last := i+1 == len(group) || group[i+1].ID.Run != e.ID.Run
		if last && (e.EnvironmentLen > 0 || e.ID.Turn > 0) {
			one.Chat = chatOf(e, texts)
		}
		rows = append(rows, one)
	}
	for _, err := range failed {
		one := row
		one.Prompt, one.Reason = experience.Question(task), err.Error()
		rows = append(rows, one)
	}
	return rows
}

// Evaluation is the answers of an evaluation that has ended.
type Evaluation struct {
	Who  string // OfRun, OfBench or the name of an explorer
	Step int64
	Rows []Evaluated
}

// write writes the file of an evaluation and returns its size in bytes. The first of a process removes those of later
// steps, which a run that resumes evaluates again.
func (e *Evaluation) write(dir string, first bool) (size int64, err error) {
	if err := durable.MkdirAll(filepath.Join(dir, evaluatedDir), 0o755); err != nil {
		return 0, err
	}
	all, err := Evaluations(dir)
	if err != nil {
		return 0, err
	}
	for _, old := range all {
		if first && old.Who == e.Who && old.Step > e.Step {
			if err := os.Remove(old.Path); err != nil {
				return 0, err
			}
		}
	}
	data, err := EvaluatedFile(e.Rows)
	if err != nil {
		return 0, err
	}
	path := filepath.Join(dir, evaluatedDir, fmt.Sprintf("%s-%d%s", e.Who, e.Step, parquetForm))
	return int64(len(data)), durable.WriteFile(path, data)
}

// EvaluatedFile returns the Parquet file of the rows.
func EvaluatedFile(rows []Evaluated) ([]byte, error) {
	var out bytes.Buffer
	w := newTable[Evaluated](&out)
	if _, err := w.Write(rows); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// EvaluationFile is a file of an evaluation.
type EvaluationFile struct {
	Who  string
	Step int64
	Path string
}

// Name names the evaluation among those of its run: its step, and who made it if that is not the run's explorer.
func (f EvaluationFile) Name() string {
	if f.Who == OfRun {
		return fmt.Sprint(f.Step)
	}
	return fmt.Sprintf("%s-%d", f.Who, f.Step)
}

// Evaluations returns the evaluations that a trace has, by step.
func Evaluations(dir string) (all []EvaluationFile, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, evaluatedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), parquetForm)
		at := strings.LastIndexByte(name, '-')
		if !ok || at <= 0 {
			continue
		}
		if step, err := strconv.ParseInt(name[at+1:], 10, 64); err == nil && step >= 0 {
			all = append(all, EvaluationFile{name[:at], step, filepath.Join(dir, evaluatedDir, e.Name())})
		}
	}
	slices.SortStableFunc(all, func(a, b EvaluationFile) int { return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Who, b.Who)) })
	return all, err
}

// ReadEvaluated reads the answers of an evaluation: a Parquet file, or the lines (.jsonl) of trinity eval.
func ReadEvaluated(path string) (rows []Evaluated, err error) {
	if !strings.HasSuffix(path, ".jsonl") {
		return readTable[Evaluated](path, &evaluatedForm)
	}
	in, _, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer in.Close()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var one Evaluated
			if err := json.Unmarshal(line, &one); err != nil || one.Taskset == "" {
				err = cmp.Or(err, errors.New("it names no taskset"))
				return nil, fmt.Errorf("%s:%d: no answer of an evaluation: %w", path, len(rows)+1, err)
			}
			rows = append(rows, one)
		}
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
