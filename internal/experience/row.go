package experience

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

// Row is an experience as people and foreign programs see it: a row of a Parquet file or of a
// database (package archive), and most of a JSON object (package operator).
type Row struct {
	ID             string   `json:"id" parquet:"id"`
	Step           int64    `json:"step" parquet:"step"`
	Task           string   `json:"task" parquet:"task,dict"`
	Run            int64    `json:"run" parquet:"run"`
	Turn           int64    `json:"turn" parquet:"turn"`
	Prompt         string   `json:"prompt" parquet:"prompt,dict"`
	Response       string   `json:"response" parquet:"response"`
	Reward         *float64 `json:"reward" parquet:"reward,optional"` // nil without a valid reward
	Reason         string   `json:"reason" parquet:"reason"`
	ModelVersion   int64    `json:"-" parquet:"model_version"`  // the newest version that sampled it
	OldestVersion  int64    `json:"-" parquet:"oldest_version"` // JSON has both as versions
	Truncated      string   `json:"truncated" parquet:"truncated"`
	PromptTokens   int64    `json:"prompt_tokens" parquet:"prompt_tokens"`
	ResponseTokens int64    `json:"response_tokens" parquet:"response_tokens"`
	Experience     []byte   `json:"-" parquet:"experience"` // all of it, in the binary form; NewRow leaves it empty
}

// column is the name of Row.Experience in a Parquet file and in a database.
const column = "experience"

// NewRow returns the row of an experience, without its binary form.
func NewRow(e *trinity.Experience) Row {
	r := Row{
		ID: e.ID.String(), Step: e.ID.Step, Task: e.ID.Task, Run: int64(e.ID.Run), Turn: int64(e.ID.Turn), Prompt: e.Prompt, Response: e.Response,
		Reason: e.Reward.Reason, ModelVersion: e.Versions[1], OldestVersion: e.Versions[0], Truncated: string(e.Truncated),
		PromptTokens: int64(e.PromptLen), ResponseTokens: int64(e.ResponseLen()),
	}
	if e.Reward.Valid {
		r.Reward = &e.Reward.Value
	}
	return r
}

// Rows returns the rows of experiences with their binary forms. It fails as [Append] does.
func Rows(exps []*trinity.Experience) ([]Row, error) {
	rows := make([]Row, len(exps))
	for i, e := range exps {
		rows[i] = NewRow(e)
		var err error
		if rows[i].Experience, err = Append(nil, e); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// FromRow returns the experience in a row of a dataset: a [Row], in which a column of bytes may be
// text in base64, or the JSON form of an experience. Rows of an experience buffer in a database
// keep prompt and response in columns of their own.
func FromRow(row map[string]any) (*trinity.Experience, error) {
	if text, ok := row[column].(string); ok {
		e, err := fromColumn(text)
		if err != nil {
			return nil, err
		}
		prompt, _ := row["prompt"].(string)
		response, _ := row["response"].(string)
		e.Prompt, e.Response = cmp.Or(e.Prompt, prompt), cmp.Or(e.Response, response)
		return e, nil
	}
	data, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	e := new(trinity.Experience)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("not an experience: %w", err)
	}
	if value, ok := row[column]; ok && value == nil {
		return nil, fmt.Errorf("not an experience: column %s is NULL, because no checkpoint of its run needs it: leave such rows out "+
			"(WHERE %s IS NOT NULL), or read an archive, which output_save_path keeps", column, column)
	}
	if len(e.Tokens) == 0 {
		return nil, fmt.Errorf("not an experience: it has no tokens: want rows as input_save_path and output_save_path write them")
	}
	return e, e.Check()
}

func fromColumn(text string) (*trinity.Experience, error) {
	data := []byte(text)
	if !strings.HasPrefix(text, Magic) {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return Decode(data)
}
