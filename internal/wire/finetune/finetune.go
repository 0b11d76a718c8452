// Package finetune has the messages of OpenAI's APIs for files, fine-tuning jobs and graders.
package finetune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// File describes an uploaded file, or one of results.
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // file
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"` // processed
}

// UploadOrder asks for an upload: a file that comes in parts.
type UploadOrder struct {
	Bytes        int64    `json:"bytes"` // of the whole file
	Filename     string   `json:"filename"`
	MimeType     string   `json:"mime_type"`
	Purpose      string   `json:"purpose"`
	ExpiresAfter *Expires `json:"expires_after"` // of the file
}

// Expires says when a file expires.
type Expires struct {
	Anchor  string `json:"anchor"` // created_at
	Seconds int64  `json:"seconds"`
}

// Upload describes a file that comes in parts.
type Upload struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // upload
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    Status `json:"status"` // pending, completed or cancelled
	File      *File  `json:"file"`   // once it is completed
}

// Part is a part of an upload.
type Part struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // upload.part
	CreatedAt int64  `json:"created_at"`
	UploadID  string `json:"upload_id"`
}

// Completion makes a file of the parts of an upload, in this order.
type Completion struct {
	PartIDs []string `json:"part_ids"`
	MD5     *string  `json:"md5"` // of the file, hexadecimal
}

// List is a page of a list.
type List[T any] struct {
	Object  string `json:"object"` // list
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
	FirstID string `json:"first_id,omitempty"`
	LastID  string `json:"last_id,omitempty"`
}

// Order asks for a job.
type Order struct {
	Model           string            `json:"model"`
	TrainingFile    string            `json:"training_file"`
	ValidationFile  *string           `json:"validation_file"`
	Method          *Method           `json:"method"`
	Hyperparameters *Hyperparameters  `json:"hyperparameters"` // of supervised jobs: the old place
	Seed            *int64            `json:"seed"`
	Suffix          *string           `json:"suffix"`
	Metadata        map[string]string `json:"metadata"`
	Integrations    []json.RawMessage `json:"integrations"`
}

// Types of methods.
const (
	Supervised    = "supervised"
	DPO           = "dpo"
	Reinforcement = "reinforcement"
)

// Method is how a job trains.
type Method struct {
	Type          string       `json:"type"`
	Supervised    *MethodTerms `json:"supervised,omitempty"`
	DPO           *MethodTerms `json:"dpo,omitempty"`
	Reinforcement *MethodTerms `json:"reinforcement,omitempty"`
}

// Terms returns the terms of the method's type. They are nil if it has none; ok is false for terms of another type, or an
// unknown one.
func (m *Method) Terms() (terms **MethodTerms, ok bool) {
	all := map[string]**MethodTerms{Supervised: &m.Supervised, DPO: &m.DPO, Reinforcement: &m.Reinforcement}
	terms, ok = all[m.Type]
	for kind, other := range all {
		ok = ok && (kind == m.Type || *other == nil)
	}
	return terms, ok
}

// With returns the method with other hyperparameters. It shares nothing that changes with m.
func (m *Method) With(h *Hyperparameters) Method {
	out := *m
	if place, ok := out.Terms(); ok && *place != nil {
		terms := **place
		terms.Hyperparameters = h
		*place = &terms
	}
	return out
}

// MethodTerms are the terms of a method. Grader and ResponseFormat belong to reinforcement alone.
type MethodTerms struct {
	Hyperparameters *Hyperparameters `json:"hyperparameters,omitempty"`
	Grader          json.RawMessage  `json:"grader,omitempty"`
	ResponseFormat  json.RawMessage  `json:"response_format,omitempty"`
}

// Hyperparameters are those of all methods.
type Hyperparameters struct {
	BatchSize              *Number `json:"batch_size,omitempty"`
	LearningRateMultiplier *Number `json:"learning_rate_multiplier,omitempty"`
	NEpochs                *Number `json:"n_epochs,omitempty"`
	Beta                   *Number `json:"beta,omitempty"`
	ComputeMultiplier      *Number `json:"compute_multiplier,omitempty"`
	EvalInterval           *Number `json:"eval_interval,omitempty"`
	EvalSamples            *Number `json:"eval_samples,omitempty"`
	ReasoningEffort        *string `json:"reasoning_effort,omitempty"`
	MaxCompletionTokens    *Number `json:"max_completion_tokens,omitempty"` // of a reply: a key of this program's own
}

// UsualEffort is the reasoning_effort of who wants none in particular.
const UsualEffort = "default"

// Number is a number, or "auto": then it is NaN.
type Number float64

// Auto reports whether n is to be chosen.
func (n *Number) Auto() bool { return n == nil || math.IsNaN(float64(*n)) }

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if n.Auto() {
		return []byte(`"auto"`), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == `"auto"` {
		*n = Number(math.NaN())
		return nil
	}
	var v float64
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf(`want a number or "auto", got %.40s`, text)
	}
	*n = Number(v)
	return nil
}

// Job is a job as clients see it.
type Job struct {
	ID              string            `json:"id"`
	Object          string            `json:"object"` // fine_tuning.job
	CreatedAt       int64             `json:"created_at"`
	FinishedAt      *int64            `json:"finished_at"`
	EstimatedFinish *int64            `json:"estimated_finish"`
	Model           string            `json:"model"`
	FineTunedModel  *string           `json:"fine_tuned_model"`
	OrganizationID  string            `json:"organization_id"`
	Status          Status            `json:"status"`
	TrainingFile    string            `json:"training_file"`
	ValidationFile  *string           `json:"validation_file"`
	ResultFiles     []string          `json:"result_files"`
	TrainedTokens   *int64            `json:"trained_tokens"`
	Seed            int64             `json:"seed"`
	Hyperparameters Hyperparameters   `json:"hyperparameters"`
	Method          Method            `json:"method"`
	Integrations    []json.RawMessage `json:"integrations"`
	Metadata        map[string]string `json:"metadata"`
	Suffix          *string           `json:"user_provided_suffix"`
	Error           *Failure          `json:"error"`
}

// Status is the state of a job or of an upload.
type Status string

// The states of a job. Paused is not in OpenAI's list, but clients of its API do not check.
const (
	Validating Status = "validating_files"
	Queued     Status = "queued"
	Running    Status = "running"
	Paused     Status = "paused"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// The states of an upload, beside Cancelled.
const (
	Pending   Status = "pending"
	Completed Status = "completed"
)

// Ended reports whether a job in this state stays in it.
func (s Status) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Failure says why a job has failed.
type Failure struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// Event is a line of a job's log.
type Event struct {
	ID        string             `json:"id"`
	Object    string             `json:"object"` // fine_tuning.job.event
	CreatedAt int64              `json:"created_at"`
	Level     string             `json:"level"` // info, warn or error
	Message   string             `json:"message"`
	Type      string             `json:"type"` // message or metrics
	Data      map[string]float64 `json:"data"`
}

// Checkpoint is a model that a job has saved.
type Checkpoint struct {
	ID        string             `json:"id"`
	Object    string             `json:"object"` // fine_tuning.job.checkpoint
	CreatedAt int64              `json:"created_at"`
	Model     string             `json:"fine_tuned_model_checkpoint"`
	Job       string             `json:"fine_tuning_job_id"`
	Step      int64              `json:"step_number"`
	Metrics   map[string]float64 `json:"metrics"`
}

// Read decodes a request. A key that the API does not have is an error, because a job that ignores it misleads.
func Read(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More takes a brace for the end
		return errors.New("there is more behind the JSON object")
	}
	return nil
}
