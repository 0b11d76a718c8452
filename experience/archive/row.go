package archive

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// column is that of a row which has all of an experience.
const column = "experience"

// row is an experience in columns.
type row struct {
	ID             string   `parquet:"id"`
	Step           int64    `parquet:"step"`
	Task           string   `parquet:"task,dict"`
	Run            int64    `parquet:"run"`
	Turn           int64    `parquet:"turn"`
	Prompt         string   `parquet:"prompt,dict"`
	Response       string   `parquet:"response"`
	Reward         *float64 `parquet:"reward,optional"`
	Reason         string   `parquet:"reason"`
	ModelVersion   int64    `parquet:"model_version"`
	OldestVersion  int64    `parquet:"oldest_version"`
	Truncated      string   `parquet:"truncated"`
	PromptTokens   int64    `parquet:"prompt_tokens"`
	ResponseTokens int64    `parquet:"response_tokens"`
	Experience     []byte   `parquet:"experience"`
}

func rowsOf(exps []*trinity.Experience) ([]row, error) {
	rows := make([]row, len(exps))
	for i, e := range exps {
		data, err := experience.Append(nil, e)
		if err != nil {
			return nil, err
		}
		rows[i] = row{
			ID: e.ID.String(), Step: e.ID.Step, Task: e.ID.Task, Run: int64(e.ID.Run), Turn: int64(e.ID.Turn), Prompt: e.Prompt, Response: e.Response,
			Reason: e.Reward.Reason, ModelVersion: e.Versions[1], OldestVersion: e.Versions[0], Truncated: string(e.Truncated),
			PromptTokens: int64(e.PromptLen), ResponseTokens: int64(len(e.Tokens) - e.PromptLen), Experience: data,
		}
		if e.Reward.Valid {
			rows[i].Reward = &e.Reward.Value
		}
	}
	return rows, nil
}

// Experience is what a row of an archive says, as a dataset reads it: bytes that are no UTF-8 are text in base64. Rows of an experience buffer in a database
// have prompt and response in columns beside the rest.
func Experience(row map[string]any) (*trinity.Experience, error) {
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
		return nil, fmt.Errorf("not an experience: column %s is NULL, because no checkpoint of its run needs it: leave such rows out (WHERE %s IS NOT NULL), or read an archive, which output_save_path keeps", column, column)
	}
	if len(e.Tokens) == 0 {
		return nil, fmt.Errorf("not an experience: it has no tokens: want rows as input_save_path and output_save_path write them")
	}
	return e, e.Check()
}

func fromColumn(text string) (*trinity.Experience, error) {
	data := []byte(text)
	if !strings.HasPrefix(text, experience.Magic) {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return experience.Decode(data)
}
