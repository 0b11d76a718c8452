package tinker

import "time"

// Checkpoint describes a checkpoint in a list.
type Checkpoint struct {
	ID           string            `json:"checkpoint_id"`   // KIND/NAME
	Type         string            `json:"checkpoint_type"` // training, sampler or external
	Time         time.Time         `json:"time"`
	Path         string            `json:"tinker_path"`
	Size         int64             `json:"size_bytes"`
	Public       bool              `json:"public"`
	UserMetadata map[string]string `json:"user_metadata,omitempty"`
	Expires      *time.Time        `json:"expires_at,omitempty"`
	BaseModel    string            `json:"base_model,omitempty"` // SDK 0.39 reads it
}

// TrainingRun describes a model that is trained, or was.
type TrainingRun struct {
	ID                    string            `json:"training_run_id"`
	BaseModel             string            `json:"base_model"`
	Owner                 string            `json:"model_owner"`
	IsLoRA                bool              `json:"is_lora"`
	Corrupted             bool              `json:"corrupted"`
	LoRARank              int               `json:"lora_rank"`
	LastRequest           time.Time         `json:"last_request_time"`
	LastCheckpoint        *Checkpoint       `json:"last_checkpoint,omitempty"`
	LastSamplerCheckpoint *Checkpoint       `json:"last_sampler_checkpoint,omitempty"`
	UserMetadata          map[string]string `json:"user_metadata,omitempty"`
}

// Cursor says which part of a list an answer has.
type Cursor struct {
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
	Total  int `json:"total_count"`
}

// CopyWeights asks for a copy of a checkpoint that belongs to who asks.
type CopyWeights struct {
	SourcePath  string `json:"source_path"`
	SessionID   string `json:"session_id,omitempty"`
	ModelSeqID  *int   `json:"model_seq_id,omitempty"`
	ProjectID   string `json:"destination_project_id,omitempty"`
	TTLSeconds  *int64 `json:"ttl_seconds,omitempty"`
	AccessToken string `json:"weights_access_token,omitempty"`
}

// SessionSummary describes a session in the answer to a search.
type SessionSummary struct {
	ID           string            `json:"session_id"`
	Created      time.Time         `json:"created_at"`
	Owner        string            `json:"owner"`
	ProjectID    string            `json:"project_id"`
	Status       *SessionStatus    `json:"status"`
	Checkpoints  int               `json:"checkpoints_count"`
	DisplayName  string            `json:"display_name,omitempty"`
	UserMetadata map[string]string `json:"user_metadata,omitempty"`
	Bytes        int64             `json:"checkpoint_storage_bytes"`
}

// SessionStatus is active for a session that lives.
type SessionStatus struct {
	Type string `json:"type"`
}

// SearchSessions asks for sessions. The zero value of a field asks for nothing.
type SearchSessions struct {
	SessionID    string            `json:"session_id,omitempty"`
	DisplayName  string            `json:"display_name,omitempty"`
	ProjectIDs   []string          `json:"project_ids,omitempty"`
	UserMetadata map[string]string `json:"user_metadata,omitempty"`
	Owner        SearchOwner       `json:"owner"`
	Statuses     []SessionStatus   `json:"statuses,omitempty"`
	Limit        int               `json:"limit,omitempty"`
	Cursor       *SearchCursor     `json:"cursor,omitempty"`
}

// SearchOwner says whose sessions: own, accessible, or those of users.
type SearchOwner struct {
	Type string   `json:"type"`
	URNs []string `json:"owner_urns,omitempty"`
}

// SearchCursor is the last session of the page before.
type SearchCursor struct {
	Created time.Time `json:"last_created_at"`
	ID      string    `json:"last_session_id"`
}
